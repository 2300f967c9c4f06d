#pragma once

namespace CLI {
class App;
}

namespace trencadis::app {

/// `trencadis cache list|verify|clear`: looks after the compiled kernels on disk.
void add_cache_command(CLI::App& app);

}  // namespace trencadis::app
