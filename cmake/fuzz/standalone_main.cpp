// Drives LLVMFuzzerTestOneInput without libFuzzer: replays a corpus, then runs a bounded number of
// mutations of it. The same seed gives the same inputs everywhere, so a failure in CI repeats at a
// desk. Takes libFuzzer's own command line: [-runs=N] [-seed=N] [-max_len=N] (file | directory)...

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

// Present when the binary is built with a sanitizer, which ends the process without a signal.
extern "C" __attribute__((weak)) void __sanitizer_set_death_callback(void (*callback)());

namespace {

using Bytes = std::vector<std::uint8_t>;

const Bytes* current_input = nullptr;

// Keeps the input that broke the test. Called from a signal handler: system calls only.
void save_current_input() {
  if (current_input == nullptr) return;
  const int file = open("crash-input", O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (file < 0) return;
  const auto written = write(file, current_input->data(), current_input->size());
  close(file);
  const char* message = written >= 0 ? "the failing input is kept in ./crash-input\n"
                                     : "the failing input could not be kept in ./crash-input\n";
  if (write(STDERR_FILENO, message, std::strlen(message)) < 0) return;
}

void on_signal(int signal) {
  save_current_input();
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  // splitmix64, written out because the standard distributions differ between libraries.
  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }

  std::size_t below(std::size_t bound) { return bound == 0 ? 0 : next() % bound; }

 private:
  std::uint64_t state_;
};

// Overwrites a little-endian integer with one that programs tend to get wrong.
void write_interesting_integer(Bytes& input, Random& random) {
  constexpr std::array<std::int64_t, 16> kValues = {
      0, 1, -1, 2, 7, 16, 64, 127, 128, 255, 32767, 65535, 65536, INT32_MAX, INT32_MIN, INT64_MAX};
  const std::size_t width = std::size_t{1} << random.below(4);
  if (input.size() < width) return;
  const std::int64_t value = kValues[random.below(kValues.size())];
  std::memcpy(input.data() + random.below(input.size() - width + 1), &value, width);
}

void mutate_once(Bytes& input, const Bytes& other, Random& random) {
  const auto at = [&](std::size_t position) {
    return input.begin() + static_cast<std::ptrdiff_t>(position);
  };
  switch (random.below(7)) {
    case 0:  // flip a bit
      if (!input.empty()) {
        input[random.below(input.size())] ^= static_cast<std::uint8_t>(1u << random.below(8));
      }
      break;
    case 1:  // change a byte
      if (!input.empty()) {
        input[random.below(input.size())] = static_cast<std::uint8_t>(random.next());
      }
      break;
    case 2:
      write_interesting_integer(input, random);
      break;
    case 3:  // insert a byte
      input.insert(at(random.below(input.size() + 1)), static_cast<std::uint8_t>(random.next()));
      break;
    case 4: {  // remove a run
      const std::size_t begin = random.below(input.size() + 1);
      const std::size_t longest = std::min<std::size_t>(input.size() - begin, 16);
      input.erase(at(begin), at(begin + random.below(longest + 1)));
      break;
    }
    case 5:  // cut the end off
      input.resize(random.below(input.size() + 1));
      break;
    case 6: {  // continue with another input's end
      input.resize(random.below(input.size() + 1));
      const std::size_t begin = random.below(other.size() + 1);
      input.insert(input.end(), other.begin() + static_cast<std::ptrdiff_t>(begin), other.end());
      break;
    }
    default:
      break;
  }
}

Bytes read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return Bytes(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
}

// In the order of the file names: the order of a directory is not the same on every machine.
std::vector<Bytes> read_corpus(const std::vector<std::string>& paths) {
  std::vector<std::filesystem::path> files;
  for (const auto& path : paths) {
    if (!std::filesystem::is_directory(path)) {
      files.emplace_back(path);
      continue;
    }
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path)) {
      if (entry.is_regular_file()) files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  std::vector<Bytes> corpus;
  for (const auto& file : files) corpus.push_back(read_file(file));
  return corpus;
}

void run(const Bytes& input) {
  current_input = &input;
  LLVMFuzzerTestOneInput(input.data(), input.size());
  current_input = nullptr;
}

}  // namespace

int main(int argc, char** argv) {
  std::uint64_t runs = 0;
  std::uint64_t seed = 1;
  std::size_t max_length = 4096;
  std::vector<std::string> paths;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    const auto value = [&] { return std::strtoull(argv[i] + argument.find('=') + 1, nullptr, 10); };
    if (argument.starts_with("-runs=")) {
      runs = value();
    } else if (argument.starts_with("-seed=")) {
      seed = value();
    } else if (argument.starts_with("-max_len=")) {
      max_length = value();
    } else if (!argument.starts_with("-")) {
      paths.emplace_back(argument);
    }
  }

  for (const int signal : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL}) {
    std::signal(signal, on_signal);
  }
  if (__sanitizer_set_death_callback != nullptr) __sanitizer_set_death_callback(save_current_input);

  std::vector<Bytes> corpus = read_corpus(paths);
  for (const Bytes& input : corpus) run(input);
  const std::size_t replayed = corpus.size();
  if (corpus.empty()) corpus.emplace_back();

  Random random(seed);
  for (std::uint64_t i = 0; i < runs; ++i) {
    Bytes input = corpus[random.below(corpus.size())];
    for (std::size_t n = random.below(8) + 1; n > 0; --n) {
      mutate_once(input, corpus[random.below(corpus.size())], random);
    }
    if (input.size() > max_length) input.resize(max_length);
    run(input);
  }
  std::printf("replayed %zu inputs, then %llu mutations\n", replayed,
              static_cast<unsigned long long>(runs));
  return 0;
}
