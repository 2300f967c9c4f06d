#pragma once

namespace CLI {
class App;
}

namespace trencadis::app {

/// `trencadis plan`: plans one step, explains the plan and draws it. Runs nothing.
void add_plan_command(CLI::App& app);

}  // namespace trencadis::app
