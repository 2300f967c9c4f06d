#!/usr/bin/env python3
"""Runs `trencadis compile`, `cache` and `info` as a user does.

    runtime_commands_test.py COMMAND SOURCE_DIR [unittest arguments]
"""

import json
import os
import shutil
import sys
import unittest

from command_test import COMMAND, FAILURE, USAGE, WRONG_RESULT, CommandTest

FUNCTOR = """
struct Tilt {
  static constexpr HookSet hooks = kLogitsTransform;
  template <class P>
  TRENCADIS_FN static float logits_transform(const P& p, float logit, const LogitCoord& at) {
    return logit + p.slope * static_cast<float>(at.kv_pos);
  }
};
"""
SPEC = json.dumps({"functor": "Tilt", "causal": True, "scalars": [{"name": "slope", "value": 0.5}]})


class RuntimeTest(CommandTest):
    """Each test has a cache of its own."""

    def setUp(self):
        super().setUp()
        self.cache = self.directory / "cache"
        self.environment = {**os.environ, "TRENCADIS_CACHE_DIR": str(self.cache)}
        for name in ("TRENCADIS_CXX", "TRENCADIS_BUNDLE"):
            self.environment.pop(name, None)

    def skip_without_nvrtc(self):
        compilers = json.loads(self.succeed("info", "--json").stdout)["compilers"]
        if not any(compiler["name"] == "nvrtc" and compiler["available"] for compiler in compilers):
            self.skipTest("no NVRTC here")

    def cache_of(self, directory, command):
        before = self.environment["TRENCADIS_CACHE_DIR"]
        self.environment["TRENCADIS_CACHE_DIR"] = str(self.directory / directory)
        result = self.succeed("cache", command, "--json")
        self.environment["TRENCADIS_CACHE_DIR"] = before
        return result

    def compile(self):
        """Compiles the functor; what the command says of it."""
        source = self.write("tilt.h", FUNCTOR)
        result = self.succeed("compile", "--spec", SPEC, "--source", source, "--json")
        return json.loads(result.stdout)[0]


class Compile(RuntimeTest):
    def test_stock_variants_need_no_compiler(self):
        self.environment["PATH"] = "/nonexistent"
        result = self.succeed("compile", "--spec", "head_dim=64,causal,soft_cap=30", "--arch", "host")
        self.assertIn("built in", result.stdout)
        self.assertIn("key ", result.stdout)
        self.assertNotIn("path     /", self.succeed("compile", "--stock").stdout)
        self.assertFalse(self.cache.exists())

    @unittest.skipUnless(shutil.which("c++"), "no C++ compiler here")
    def test_own_variant_is_compiled_once(self):
        first = self.compile()
        self.assertFalse(first["from_cache"])
        self.assertGreater(first["seconds"], 0)
        self.assertTrue(os.path.exists(first["path"]))
        self.assertIn("Tilt", first["name"])
        again = self.compile()
        self.assertTrue(again["from_cache"])
        self.assertEqual(again["key"], first["key"])

    def test_source_is_printed_and_deterministic(self):
        source = self.write("tilt.h", FUNCTOR)
        arguments = ("compile", "--spec", SPEC, "--source", source, "--print-source")
        text = self.succeed(*arguments).stdout
        self.assertIn("logits_transform", text)
        self.assertEqual(self.succeed(*arguments).stdout, text)
        self.assertFalse(self.cache.exists())

    def test_source_for_a_device_needs_none(self):
        text = self.succeed("compile", "--spec", "causal", "--arch", "sm_90a", "--print-source").stdout
        for word in ("trencadis_attention", "TileClasses"):
            self.assertIn(word, text)
        self.assertFalse(self.cache.exists())

    def test_device_kernels_say_what_they_take(self):
        self.skip_without_nvrtc()
        arguments = ("compile", "--spec", "dtype=f32,causal", "--arch", "sm_90a")
        (attention,) = json.loads(self.succeed(*arguments, "--json").stdout)[0]["resources"]
        self.assertEqual(attention["name"], "trencadis_attention")
        self.assertGreater(attention["shared_bytes"], 48 * 1024)
        self.assertEqual(attention["stack_bytes"], 0)
        line = f"{attention['registers']} registers +0 bytes of stack +{attention['shared_bytes']:,} bytes of shared"
        self.assertRegex(self.succeed(*arguments).stdout, line)

    def test_missing_nvrtc_says_what_was_searched(self):
        self.environment["TRENCADIS_LIBNVRTC"] = "/nonexistent/libnvrtc.so"
        self.fail_with(
            FAILURE, ["no NVRTC", "/nonexistent/libnvrtc.so", "trencadis compile --arch sm_90a --spec"],
            "compile", "--spec", "causal", "--arch", "sm_90a",
        )  # fmt: skip

    def test_a_bundle_of_stock_kernels_needs_no_compiler(self):
        self.skip_without_nvrtc()
        made = json.loads(
            self.succeed("compile", "--stock", "--arch", "sm_80,sm_90a", "--dtype", "f32", "--head-dim", "32",
                         "--output", "bundle", "--json").stdout
        )  # fmt: skip
        self.assertEqual({kernel["arch"] for kernel in made}, {"sm_80", "sm_90a"})
        self.assertFalse(self.cache.exists())
        entries = json.loads(self.cache_of("bundle", "list").stdout)["entries"]
        names = [entry["name"] for entry in entries]
        self.assertTrue({kernel["key"] for kernel in made} <= {entry["key"] for entry in entries})
        self.assertEqual(len([name for name in names if "merge" in name]), 2, names)
        self.assertEqual(len([name for name in names if "pages" in name]), 2, names)

        self.environment["TRENCADIS_BUNDLE"] = str(self.directory / "bundle")
        self.environment["TRENCADIS_LIBNVRTC"] = "/nonexistent/libnvrtc.so"
        for spec in ("causal", "causal,sinks", "soft_cap=30,window_left=99", "alibi", "causal,rope", "sigmoid"):
            arguments = ("compile", "--spec", f"head_dim=32,dtype=f32,{spec}", "--arch", "sm_80,sm_90a", "--json")
            for kernel in json.loads(self.succeed(*arguments).stdout):
                self.assertTrue(kernel["from_cache"], kernel)
                self.assertIn("/bundle/", kernel["path"])
        self.fail_with(FAILURE, ["neither in the bundle", "nor in the cache", "no NVRTC"],
                       "compile", "--spec", "head_dim=64,dtype=f32", "--arch", "sm_90a")  # fmt: skip
        self.assertFalse(self.cache.exists())

    def test_stock_variants_that_an_architecture_lacks_are_left_out(self):
        for dtypes, status in (("bf16", FAILURE), ("bf16,f16", 0)):
            result = self.run_command("compile", "--stock", "--arch", "sm_75", "--dtype", dtypes, "--print-source")
            self.assertEqual(result.returncode, status, result.stderr)
            self.assertIn("sm_75", result.stderr)
            self.assertIn("bfloat16", result.stderr)

    def test_spec_may_be_a_file(self):
        inline = self.succeed("compile", "--spec", "causal,alibi", "--json").stdout
        for name, text in (("a.json", '{"causal": true, "alibi": true}'), ("a.spec", "causal,alibi\n")):
            path = self.write(name, text)
            self.assertEqual(self.succeed("compile", "--spec", path, "--json").stdout, inline)

    @unittest.skipUnless(shutil.which("c++"), "no C++ compiler here")
    def test_an_error_points_into_the_users_text(self):
        source = self.write("tilt.h", FUNCTOR.replace("at.kv_pos", "at.kv_posn"))
        result = self.run_command("compile", "--spec", SPEC, "--source", source)
        self.assertEqual(result.returncode, FAILURE)
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
        self.assertRegex(result.stderr, r"variant:6:\d+: error: .*kv_posn")
        self.assertIn(str(self.cache / "failed"), result.stderr)

    def test_bad_input_is_one_line(self):
        self.fail_with(FAILURE, ["--spec", "--stock"], "compile")
        self.fail_with(FAILURE, ["'casual'", "causal"], "compile", "--spec", "casual")
        self.fail_with(FAILURE, ["not JSON"], "compile", "--spec", '{"head_dim": }')
        self.fail_with(FAILURE, ["missing.json"], "compile", "--spec", "missing.json")
        self.fail_with(FAILURE, ["missing.h"], "compile", "--spec", "functor=F", "--source", "missing.h")
        self.fail_with(FAILURE, ["sm_91", "host", "sm_90a"], "compile", "--spec", "causal", "--arch", "sm_91")
        self.fail_with(USAGE, ["--stock"], "compile", "--spec", "causal", "--stock")

    def test_a_missing_compiler_says_what_was_searched(self):
        source = self.write("tilt.h", FUNCTOR)
        self.environment["TRENCADIS_CXX"] = "/nonexistent/c++"
        self.fail_with(
            FAILURE, ["/nonexistent/c++", "install g++"], "compile", "--spec", SPEC, "--source", source
        )

    def test_a_cache_that_cannot_be_is_named(self):
        source = self.write("tilt.h", FUNCTOR)
        self.environment["TRENCADIS_CACHE_DIR"] = str(self.write("a-file", "") / "cache")
        self.fail_with(
            FAILURE, ["a-file/cache", "prebuild", "trencadis compile --arch host --spec"],
            "compile", "--spec", SPEC, "--source", source,
        )  # fmt: skip


class Cache(RuntimeTest):
    def test_an_empty_cache_is_no_error(self):
        for command in ("list", "verify"):
            self.assertIn("0 kernels in " + str(self.cache), self.succeed("cache", command).stdout)
        self.assertIn("removed 0 kernels", self.succeed("cache", "clear").stdout)
        self.assertFalse(self.cache.exists())

    @unittest.skipUnless(shutil.which("c++"), "no C++ compiler here")
    def test_lists_verifies_and_clears(self):
        kernel = self.compile()
        self.assertIn(kernel["key"], self.succeed("cache", "list").stdout)
        entry = json.loads(self.succeed("cache", "verify", "--json").stdout)["entries"][0]
        self.assertEqual((entry["key"], entry["intact"]), (kernel["key"], True))

        with open(kernel["path"], "r+b") as file:
            file.seek(-1, os.SEEK_END)
            last = file.read(1)
            file.seek(-1, os.SEEK_END)
            file.write(bytes([last[0] ^ 1]))
        result = self.run_command("cache", "verify")
        self.assertEqual(result.returncode, WRONG_RESULT)
        self.assertIn("DAMAGED", result.stdout)
        self.assertIn("1 of 1 kernels", result.stderr)
        self.assertFalse(self.compile()["from_cache"])
        self.succeed("cache", "verify")

        self.assertIn("removed 1 kernels", self.succeed("cache", "clear").stdout)
        self.assertFalse(os.path.exists(kernel["path"]))

    def test_needs_to_know_what_to_do(self):
        self.fail_with(USAGE, ["subcommand"], "cache")


class Info(RuntimeTest):
    def test_tells_what_is_here_and_why_something_is_not(self):
        text = self.succeed("info").stdout
        for word in ("backends", "cpu", "cuda", "compilers", "host", "nvrtc", str(self.cache)):
            self.assertIn(word, text)
        info = json.loads(self.succeed("info", "--json").stdout)
        for part in (*info["backends"], *info["compilers"], info["cuda_driver"]):
            self.assertNotEqual(part["available"], part["reason"] != "", part)
        cpu = next(backend for backend in info["backends"] if backend["name"] == "cpu")
        self.assertTrue(cpu["available"])
        self.assertGreaterEqual(cpu["devices"][0]["num_ctas"], 1)

    def test_tells_why_there_is_no_driver(self):
        self.environment["TRENCADIS_LIBCUDA"] = "/nonexistent/libcuda.so"
        text = self.succeed("info").stdout
        self.assertIn("no CUDA driver: TRENCADIS_LIBCUDA is set", text)
        driver = json.loads(self.succeed("info", "--json").stdout)["cuda_driver"]
        self.assertEqual((driver["available"], driver["devices"]), (False, []))

    def test_works_without_compiler_and_home(self):
        for name in ("TRENCADIS_CACHE_DIR", "XDG_CACHE_HOME", "HOME"):
            self.environment.pop(name, None)
        self.environment["TRENCADIS_CXX"] = "/nonexistent/c++"
        text = self.succeed("info").stdout
        self.assertIn("/nonexistent/c++ is not found", text)
        self.assertIn("set TRENCADIS_CACHE_DIR", text)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
