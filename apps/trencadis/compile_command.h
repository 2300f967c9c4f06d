#pragma once

namespace CLI {
class App;
}

namespace trencadis::app {

/// `trencadis compile`: puts the kernels of a spec into the cache, or prints their source.
void add_compile_command(CLI::App& app);

}  // namespace trencadis::app
