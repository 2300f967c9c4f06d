// The formats behind open_trace().
#pragma once

#include "trace/trace_reader.h"

namespace trencadis::app {

std::unique_ptr<TraceReader> open_azure_trace(const std::string& path);
std::unique_ptr<TraceReader> open_azure_trace_text(const std::string& name, std::string_view text);

std::unique_ptr<TraceReader> open_mooncake_trace(const std::string& path);
std::unique_ptr<TraceReader> open_mooncake_trace_text(const std::string& name,
                                                      std::string_view text);

/// A piece of a file fit for a message: printable ASCII, at most 40 characters.
std::string quote_excerpt(std::string_view text);

}  // namespace trencadis::app
