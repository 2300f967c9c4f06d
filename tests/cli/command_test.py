#!/usr/bin/env python3
"""Runs the command as a user does: what it prints, what it writes, and how it fails.

    command_test.py COMMAND SOURCE_DIR [unittest arguments]
"""

import json
import os
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import xml.etree.ElementTree as ElementTree
from pathlib import Path

COMMAND = Path(sys.argv[1]).resolve()
TRACE = Path(sys.argv[2]).resolve() / "data" / "azure_conv_2023.csv"

FAILURE, USAGE, WRONG_RESULT = 1, 2, 3
HEADER = "TIMESTAMP,ContextTokens,GeneratedTokens\n"

# As in tests/support/scale.h: below 1 where a sanitizer makes everything slow.
SCALE = float(os.environ.get("TRENCADIS_TEST_SCALE", "1"))

# A replay that takes a moment: one layer of one KV head.
SMALL = ["--heads", "2:1:32", "--layers", "1", "--threads", "2"]


class CommandTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = Path(directory.name)
        self.environment = None  # of the command; None: this process's

    def run_command(self, *arguments):
        return subprocess.run(
            [COMMAND, *map(str, arguments)],
            cwd=self.directory,
            capture_output=True,
            text=True,
            timeout=120,
            env=self.environment,
        )

    def succeed(self, *arguments):
        result = self.run_command(*arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result

    def fail_with(self, status, words, *arguments):
        """One line on stderr that holds all of `words`, and no file left behind."""
        before = sorted(self.directory.rglob("*"))
        result = self.run_command(*arguments)
        self.assertEqual(result.returncode, status, result.stdout + result.stderr)
        lines = result.stderr.splitlines()
        self.assertEqual(len(lines), 1, result.stderr)
        self.assertTrue(lines[0].startswith("trencadis: "), lines[0])
        for word in words:
            self.assertIn(word, lines[0])
        self.assertEqual(result.stdout, "")
        self.assertEqual(sorted(self.directory.rglob("*")), before)

    def write(self, name, text):
        path = self.directory / name
        path.write_text(text)
        return path


class Help(CommandTest):
    def test_names_every_command(self):
        text = self.succeed("--help").stdout
        for command in ("replay", "plan", "compile", "cache", "info"):
            self.assertIn(command, text)

    def test_of_each_command_names_its_options(self):
        replay = self.succeed("replay", "--help").stdout
        for option in ("--trace", "--backend", "--model", "--heads", "--layers", "--requests",
                       "--max-batch", "--chunk", "--page-size", "--dtype", "--verify", "--json",
                       "--plan-svg", "--read-rate"):  # fmt: skip
            self.assertIn(option, replay)
        plan = self.succeed("plan", "--help").stdout
        for option in ("--lengths", "--trace", "--device", "--svg", "h200"):
            self.assertIn(option, plan)

    def test_version_is_one_line(self):
        self.assertRegex(self.succeed("--version").stdout, r"^trencadis \d+\.\d+\.\d+\n$")


class Replay(CommandTest):
    def test_writes_what_it_prints(self):
        result = self.succeed(
            "replay", "--trace", TRACE, "--requests", 12, *SMALL, "--verify", 4,
            "--json", "out/replay.json", "--plan-svg", "out/plan.svg",
        )  # fmt: skip
        report = json.loads((self.directory / "out/replay.json").read_text())
        self.assertEqual(report["requests"], 12)
        self.assertEqual(report["backend"], "cpu")
        self.assertGreater(report["steps"], 0)
        self.assertGreater(report["tokens"], report["requests"])
        for key in ("plan_us", "attention_us"):
            self.assertGreater(report[key]["median"], 0)
            self.assertGreaterEqual(report[key]["p99"], report[key]["median"])
        self.assertGreater(report["read_share"], 0)
        self.assertGreaterEqual(report["balance"], 1)
        self.assertEqual(report["verification"]["steps"], 4)
        self.assertTrue(report["verification"]["passed"])
        self.assertLess(report["max_error"], 0.02)
        for row in ("requests", "tokens", "steps", "plan", "queue balance", "largest error"):
            self.assertIn(row, result.stdout)
        svg = ElementTree.parse(self.directory / "out/plan.svg").getroot()
        self.assertTrue(svg.tag.endswith("svg"))
        written = sorted(path.name for path in (self.directory / "out").iterdir())
        self.assertEqual(written, ["plan.svg", "replay.json"])

    def test_a_read_rate_that_is_given_is_not_measured(self):
        self.succeed("replay", "--trace", TRACE, "--requests", 2, *SMALL, "--read-rate", 0.125,
                     "--json", "r.json")  # fmt: skip
        report = json.loads((self.directory / "r.json").read_text())
        self.assertEqual(report["machine_read_gbps"], 125)
        self.assertAlmostEqual(report["read_share"], report["decode_read_gbps"] / 125)
        self.assertNotIn("read_floor", report)

    def test_steps_depend_on_the_trace_alone(self):
        reports = []
        for threads in (1, 2):
            self.succeed("replay", "--trace", TRACE, "--requests", 8, "--heads", "2:1:32",
                         "--layers", 1, "--threads", threads, "--json", "r.json")  # fmt: skip
            reports.append(json.loads((self.directory / "r.json").read_text()))
        for key in ("requests", "tokens", "steps", "decode_steps"):
            self.assertEqual(reports[0][key], reports[1][key])

    def test_reads_mooncake(self):
        rows = [
            json.dumps({"timestamp": 100 * i, "input_length": 40 + i, "output_length": 3,
                        "hash_ids": [0, i]})
            for i in range(5)
        ]  # fmt: skip
        trace = self.write("trace.jsonl", "\n".join(rows) + "\n")
        self.succeed("replay", "--trace", trace, *SMALL, "--json", "r.json")
        report = json.loads((self.directory / "r.json").read_text())
        self.assertEqual(report["requests"], 5)
        self.assertEqual(report["tokens"], sum(43 + i for i in range(5)))

    def test_every_dtype_agrees_with_the_reference(self):
        for dtype in ("float32", "float16", "bfloat16"):
            self.succeed("replay", "--trace", TRACE, "--requests", 3, *SMALL, "--dtype", dtype,
                         "--verify", 3)  # fmt: skip

    @unittest.skipIf(SCALE < 1, "4,500 tokens of a real model take minutes under a sanitizer")
    def test_layers_with_windows_agree_with_the_reference(self):
        trace = self.write("long.csv", HEADER + "2023-11-16 18:15:46,4500,3\n")
        self.succeed("replay", "--trace", trace, "--model", "gemma-2-2b", "--layers", 2,
                     "--chunk", 64, "--requests", 1, "--verify", 2)  # fmt: skip


class BadTrace(CommandTest):
    def replay_fails(self, words, trace):
        self.fail_with(FAILURE, words, "replay", "--trace", trace, *SMALL,
                       "--json", "replay.json", "--plan-svg", "plan.svg")  # fmt: skip

    def test_missing(self):
        self.replay_fails(["no-such.csv", "no such file"], "no-such.csv")

    def test_directory(self):
        self.replay_fails(["is a directory"], self.directory)

    def test_no_regular_file(self):
        os.mkfifo(self.directory / "fifo.csv")
        for trace in ("fifo.csv", "/dev/null"):
            self.replay_fails([f"{trace}: is not a regular file"], trace)
        self.fail_with(FAILURE, ["fifo.csv: is not a regular file"], "plan", "--trace", "fifo.csv")

    def test_empty(self):
        self.replay_fails(["empty.csv:1", "expected a header"], self.write("empty.csv", ""))

    def test_no_request(self):
        self.replay_fails(["none.csv", "no request"], self.write("none.csv", HEADER))

    def test_wrong_columns(self):
        self.replay_fails(["bad.csv:1", "GeneratedTokens"],
                          self.write("bad.csv", "TIMESTAMP,ContextTokens\n"))  # fmt: skip

    def test_a_bad_line_is_found_before_any_work(self):
        rows = "2023-11-16 18:15:46,10,3\n" * 2000
        self.replay_fails(
            ["bad.csv:2002", '"ten"', "whole number"],
            self.write("bad.csv", HEADER + rows + "2023-11-16 18:15:46,ten,3\n"),
        )

    def test_out_of_order(self):
        rows = "2023-11-16 18:15:46,10,3\n2023-11-16 18:15:45,10,3\n"
        self.replay_fails(["bad.csv:3", "order of arrival"], self.write("bad.csv", HEADER + rows))

    def test_cut_json(self):
        self.replay_fails(["bad.jsonl:1", "not a JSON object"],
                          self.write("bad.jsonl", '{"timestamp": 0, "inp'))  # fmt: skip

    def test_binary(self):
        path = self.directory / "bad.bin"
        path.write_bytes(bytes(range(256)) * 10)
        self.replay_fails(["bad.bin:"], path)


class BadRequest(CommandTest):
    """Things that a trace or a command line may ask for and that cannot be had."""

    def replay_fails(self, status, words, *arguments):
        self.fail_with(status, words, "replay", "--trace", TRACE, "--requests", 5,
                       "--json", "replay.json", "--plan-svg", "plan.svg", *arguments)  # fmt: skip

    def test_no_command(self):
        self.fail_with(USAGE, ["subcommand", "--help"])

    def test_unknown_option(self):
        self.replay_fails(USAGE, ["--colour"], "--colour", "red")

    def test_no_trace(self):
        self.fail_with(USAGE, ["trace"], "replay")

    def test_not_a_number(self):
        self.replay_fails(USAGE, ["--chunk is many, expected 1 or more"], "--chunk", "many")
        self.replay_fails(USAGE, ["--step-time is nan, expected 0 or more"], "--step-time", "nan")

    def test_a_number_out_of_bounds(self):
        for option in ("--layers", "--max-batch", "--chunk", "--page-size", "--pool-tokens",
                       "--threads", "--requests", "--workspace-bytes"):  # fmt: skip
            for value in (0, -1, 10**17, 10**30):
                self.replay_fails(USAGE, [f"{option} is {value}, expected 1 or more, at most "],
                                  option, value)  # fmt: skip
        self.replay_fails(USAGE, ["--verify is -1, expected 0 or more"], "--verify", -1)
        self.replay_fails(USAGE, ["--read-rate is -1, expected 0 or more"], "--read-rate", -1)
        self.fail_with(USAGE, ["--batch is 9999999, expected"], "plan", "--trace", TRACE,
                       "--batch", 9999999)  # fmt: skip

    def test_unknown_model(self):
        self.replay_fails(FAILURE, ["gpt-9", "llama-3.1-8b"], "--model", "gpt-9")

    def test_model_and_heads(self):
        self.replay_fails(USAGE, ["--model", "--heads"], "--model", "tiny", "--heads", "8:2:64")

    def test_malformed_heads(self):
        self.replay_fails(FAILURE, ["32:8", "H_q:H_kv:D"], "--heads", "32:8")
        self.replay_fails(FAILURE, ["7:2:64", "multiple"], "--heads", "7:2:64")

    def test_unknown_backend(self):
        self.replay_fails(FAILURE, ["tpu", "cpu"], "--backend", "tpu")

    def test_no_gpu(self):
        self.environment = {**os.environ, "TRENCADIS_LIBCUDA": "/nonexistent/libcuda.so"}
        self.replay_fails(FAILURE, ["no CUDA driver", "/nonexistent/libcuda.so"], "--backend", "cuda")
        self.replay_fails(FAILURE, ["no CUDA driver", "/nonexistent/libcuda.so"], "--backend", "cuda",
                          "--pool-tokens", 100_000)  # fmt: skip

    def test_unknown_dtype(self):
        self.replay_fails(FAILURE, ["fp99"], "--dtype", "fp99")
        self.replay_fails(FAILURE, ["int32", "bfloat16"], "--dtype", "int32")

    def test_heads_beyond_any_model(self):
        self.replay_fails(FAILURE, ["1:1:100003", "1024"], "--heads", "1:1:100003")
        self.replay_fails(FAILURE, ["8192:8:64", "4096"], "--heads", "8192:8:64")

    def test_pool_too_small_for_a_request(self):
        self.replay_fails(FAILURE, ["azure_conv_2023.csv:", "--pool-tokens"], *SMALL,
                          "--pool-tokens", 64)  # fmt: skip

    def test_pool_too_large_for_the_machine(self):
        self.replay_fails(FAILURE, ["GiB", "--pool-tokens"], "--model", "llama-3.1-405b",
                          "--pool-tokens", 10**8)  # fmt: skip

    def test_workspace_too_small(self):
        self.replay_fails(FAILURE, ["workspace"], *SMALL, "--workspace-bytes", 1024)

    def test_output_that_cannot_be_written(self):
        (self.directory / "taken").mkdir()
        self.fail_with(FAILURE, ["taken", "cannot be written"], "replay", "--trace", TRACE, *SMALL,
                       "--requests", 1, "--json", "taken")  # fmt: skip


class Outputs(CommandTest):
    REPLAY = ["replay", "--trace", TRACE, *SMALL, "--requests", 1]

    def fail_writing_to(self, path, *arguments):
        with open(path, "w") as out:
            result = subprocess.run([COMMAND, *map(str, arguments)], cwd=self.directory, stdout=out,
                                    stderr=subprocess.PIPE, text=True, timeout=120)  # fmt: skip
        self.assertEqual(result.returncode, FAILURE, result.stderr)
        self.assertRegex(result.stderr, r"^trencadis: [^\n]*No space left on device\n$")

    @unittest.skipUnless(os.path.exists("/dev/full"), "no /dev/full here")
    def test_stdout_that_is_full(self):
        self.fail_writing_to("/dev/full", "info")
        self.fail_writing_to("/dev/full", "--help")
        self.fail_writing_to("/dev/full", "plan", "--lengths", "1:5")

    @unittest.skipUnless(os.path.exists("/dev/full"), "no /dev/full here")
    def test_a_device_is_written_through(self):
        result = self.run_command(*self.REPLAY, "--json", "/dev/full")
        self.assertEqual(result.returncode, FAILURE)
        self.assertIn("/dev/full: cannot be written: No space left", result.stderr)
        self.assertTrue(stat.S_ISCHR(os.stat("/dev/full").st_mode))

    def test_stdout_takes_a_report(self):
        report = self.succeed("plan", "--lengths", "1:5", "--json", "/dev/stdout").stdout
        self.assertEqual(json.loads(report[report.index("{\n") :])["requests"], 1)

    def test_a_fifo_is_written_through(self):
        fifo = self.directory / "fifo"
        os.mkfifo(fifo)
        texts = []
        reader = threading.Thread(target=lambda: texts.append(fifo.read_text()), daemon=True)
        reader.start()
        self.succeed("plan", "--lengths", "1:5", "--json", "fifo")
        reader.join(timeout=10)
        self.assertEqual(json.loads(texts[0])["requests"], 1)
        self.assertTrue(fifo.is_fifo())

    def test_a_link_stays(self):
        (self.directory / "real").mkdir()
        link = self.directory / "link.json"
        link.symlink_to("real/plan.json")
        for _ in range(2):
            self.succeed("plan", "--lengths", "1:5", "--json", "link.json")
            self.assertTrue(link.is_symlink())
            plan = json.loads((self.directory / "real/plan.json").read_text())
            self.assertEqual(plan["requests"], 1)

    def test_two_outputs_are_two_files(self):
        self.fail_with(FAILURE, ["--json", "--plan-svg", "same"], *self.REPLAY,
                       "--json", "same", "--plan-svg", "./same")  # fmt: skip
        self.fail_with(FAILURE, ["--json", "--svg", "same"], "plan", "--lengths", "1:5",
                       "--json", "same", "--svg", "same")  # fmt: skip

    def test_a_signal_leaves_nothing(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            command = subprocess.Popen(
                [COMMAND, "replay", "--trace", TRACE, "--json", "r.json", "--plan-svg", "p.svg"],
                cwd=self.directory, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )  # fmt: skip
            time.sleep(0.5)
            command.send_signal(number)
            self.assertEqual(command.wait(timeout=60), -number)
            self.assertEqual(list(self.directory.iterdir()), [])


class Plan(CommandTest):
    def test_explains_and_draws_lengths_for_a_device_that_is_not_here(self):
        result = self.succeed(
            "plan", "--lengths", "1:65536,512:512x2", "1:100x4", "--device", "h200",
            "--heads", "32:8:128", "--svg", "plan.svg", "--json", "plan.json",
        )  # fmt: skip
        plan = json.loads((self.directory / "plan.json").read_text())
        self.assertEqual(plan["device"], "h200")
        self.assertEqual(plan["requests"], 7)
        self.assertEqual(plan["queues"], 132)
        self.assertGreater(plan["partial_slots"], 0)
        covered = sum(
            span["kv"][1] - span["kv"][0] for span in plan["spans"] if span["request"] == 0
        )
        self.assertEqual(covered, 65536 * 8)
        self.assertIn("queue", result.stdout)
        self.assertTrue(ElementTree.parse(self.directory / "plan.svg").getroot().tag.endswith("svg"))

    def test_of_a_trace_has_the_batch_it_is_asked_for(self):
        self.succeed("plan", "--trace", TRACE, "--batch", 20, "--json", "plan.json")
        plan = json.loads((self.directory / "plan.json").read_text())
        self.assertEqual(plan["requests"], 20)
        self.fail_with(FAILURE, ["--batch"], "plan", "--trace", TRACE, "--batch", 2000)

    def test_an_empty_request_is_an_ordinary_input(self):
        self.succeed("plan", "--lengths", "0:0,1:0,1:5")

    def test_is_the_same_twice(self):
        texts = [self.succeed("plan", "--lengths", "1:3000x9", "--device", "h100").stdout
                 for _ in range(2)]  # fmt: skip
        self.assertEqual(*texts)

    def test_failures_are_one_line(self):
        self.fail_with(FAILURE, ["--lengths", "--trace"], "plan")
        self.fail_with(FAILURE, ['"1-4096"', "query:kv"], "plan", "--lengths", "1-4096")
        self.fail_with(FAILURE, ["gpu9", "h200"], "plan", "--lengths", "1:1", "--device", "gpu9")
        self.fail_with(FAILURE, ["no-such.csv"], "plan", "--trace", "no-such.csv")
        self.fail_with(FAILURE, ["sometimes", "auto"], "plan", "--lengths", "1:1",
                       "--split", "sometimes", "--svg", "plan.svg")  # fmt: skip


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
