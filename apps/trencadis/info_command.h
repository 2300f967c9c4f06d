#pragma once

namespace CLI {
class App;
}

namespace trencadis::app {

/// `trencadis info`: what can run and compile here, and why something cannot.
void add_info_command(CLI::App& app);

}  // namespace trencadis::app
