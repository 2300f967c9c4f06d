"""What tools/check_layers.py must find, each in a small tree of its own."""

import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
import check_layers  # noqa: E402


class CheckLayers(unittest.TestCase):
    def problems(self, files: dict) -> list:
        with tempfile.TemporaryDirectory() as directory:
            for path, text in files.items():
                file = Path(directory, path)
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text)
            return check_layers.check(Path(directory))[0]

    def assert_clean(self, files: dict):
        self.assertEqual(self.problems(files), [])

    def assert_one(self, files: dict, *fragments: str):
        problems = self.problems(files)
        self.assertEqual(len(problems), 1, problems)
        for fragment in fragments:
            self.assertIn(fragment, problems[0])

    def test_an_arrow_of_the_table_is_allowed(self):
        self.assert_clean({
            "src/planner/plan.cpp": '#include "planner/plan.h"\n#include "base/check.h"\n#include <vector>\n',
            "src/planner/plan.h": '#include "contract/plan.h"\n',
            "src/base/check.h": "#include <trencadis/error.h>\n#include <fmt/format.h>\n",
            "kernels/contract/plan.h": "#include <cstdint>\n",
            "include/trencadis/error.h": "#include <string>\n#include <dlpack/dlpack.h>\n",
        })

    def test_an_upward_include_names_file_line_arrow_and_what_is_allowed(self):
        self.assert_one(
            {
                "src/planner/plan.cpp": '#include <vector>\n\n#include "engine/engine.h"\n',
                "src/engine/engine.h": "",
            },
            "src/planner/plan.cpp:3:",
            "src/planner -> src/engine",
            "src/sparsity, src/base, include, kernels/contract",
        )

    def test_the_oracle_may_not_see_kernels(self):
        self.assert_one(
            {"src/backends/reference/oracle.cpp": '#include "cpu/tile.h"\n', "kernels/cpu/tile.h": ""},
            "src/backends/reference -> kernels/cpu",
        )

    def test_kernels_may_not_see_the_host_side(self):
        self.assert_one(
            {"kernels/cpu/tile.h": '#include "base/check.h"\n', "src/base/check.h": ""},
            "kernels/cpu -> src/base",
        )

    def test_a_neighbouring_header_without_a_directory_is_resolved(self):
        self.assert_clean({"kernels/cpu/a.h": '#include "b.h"\n', "kernels/cpu/b.h": ""})

    def test_the_contract_takes_only_the_smallest_standard_headers(self):
        self.assert_one({"kernels/contract/plan.h": "#include <vector>\n"}, "plan.h:1:", "<cstdint>")

    def test_public_headers_take_nothing_from_outside_but_dlpack(self):
        self.assert_one({"include/trencadis/error.h": "#include <fmt/format.h>\n"}, "fmt headers", "dlpack")

    def test_apps_see_the_public_api_and_any_library(self):
        self.assert_clean({
            "apps/trencadis/main.cpp": '#include "report.h"\n#include <CLI/CLI.hpp>\n#include <trencadis/error.h>\n',
            "apps/trencadis/report.h": "",
            "include/trencadis/error.h": "",
        })
        self.assert_one(
            {"apps/trencadis/main.cpp": '#include "base/check.h"\n', "src/base/check.h": ""},
            "apps -> src/base",
        )

    def test_a_path_with_dots_is_refused(self):
        self.assert_one(
            {"src/jit/cache.cpp": '#include "../base/check.h"\n', "src/base/check.h": ""}, "src/jit/cache.cpp:1:", ".."
        )

    def test_nothing_includes_tests(self):
        self.assert_one(
            {"src/base/check.cpp": '#include "tests/support/scale.h"\n', "tests/support/scale.h": ""},
            "src/base -> tests",
        )

    def test_a_file_outside_every_room_is_reported(self):
        self.assert_one({"src/misc/util.h": ""}, "src/misc/util.h:1:", "no room")

    def test_comments_and_generated_text_are_not_includes(self):
        self.assert_clean({
            "src/codegen/source.cpp": (
                '// #include "cpu/a.h"\n'
                '/*\n#include "cpu/a.h"\n*/\n'
                'const char* url = "http://x";\n'
                'const char* kText = R"text(\n#include "cpu/a.h"\n)text";\n'
            ),
            "kernels/cpu/a.h": "",
        })

    def test_the_line_is_right_below_a_comment(self):
        self.assert_one(
            {"src/base/a.cpp": '/* one\ntwo */\n#include "jit/b.h"\n', "src/jit/b.h": ""}, "src/base/a.cpp:3:"
        )

    def test_this_tree_has_only_rooms_that_the_table_knows(self):
        names = [room.path for room in check_layers.ROOMS]
        self.assertEqual(len(names), len(set(names)))
        for room in check_layers.ROOMS:
            for other in room.may:
                self.assertIn(other, names)


if __name__ == "__main__":
    unittest.main()
