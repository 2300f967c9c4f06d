#pragma once

namespace CLI {
class App;
}

namespace trencadis::app {

/// `trencadis replay`: serves a trace and reports how that went.
void add_replay_command(CLI::App& app);

}  // namespace trencadis::app
