// In libFuzzer's place, for builds without Clang: the seeds once through, then copies of them
// damaged at random, always the same ones. It is blind (no coverage guides it), so it stands in for
// tools/fuzz where that is too slow, not more.
//   fuzz_NAME FOLDER [COPIES]     what breaks the target is left in ./crash-NAME
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

std::string current, crash_file;

/// Only what a signal handler may do: the input must not be lost with the process.
void keep_input(int signal) {
  const int file = ::open(crash_file.c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0644);
  if (file >= 0) (void)!::write(file, current.data(), current.size());
  std::signal(signal, SIG_DFL);
  ::raise(signal);
}

void run(std::string input) {
  current = std::move(input);
  (void)LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(current.data()), current.size());
}

/// A few changes of the kinds that break parsers: a byte, a bit, a number at its ends, a piece cut
/// out or doubled, a piece of another seed, an early end.
std::string damaged(std::string text, const std::vector<std::string>& seeds, std::mt19937& random) {
  const auto pick = [&random](size_t below) { return below == 0 ? 0 : random() % below; };
  constexpr unsigned char kEnds[] = {0, 1, 0x7f, 0x80, 0xfe, 0xff};
  for (size_t changes = 1 + pick(4); changes > 0; --changes) {
    const size_t at = pick(text.size()), length = std::min(1 + pick(8), text.size() - at);
    switch (pick(text.empty() ? 1 : 7)) {
      case 0: {
        const std::string& other = seeds[pick(seeds.size())];
        const size_t from = pick(other.size());
        text.insert(at, other, from, 1 + pick(other.size() - from));
        break;
      }
      case 1:
        text[at] = static_cast<char>(random());
        break;
      case 2:
        text[at] = static_cast<char>(text[at] ^ 1 << pick(8));
        break;
      case 3:
        std::fill_n(text.begin() + static_cast<std::ptrdiff_t>(at), length,
                    static_cast<char>(kEnds[pick(std::size(kEnds))]));
        break;
      case 4:
        text.erase(at, length);
        break;
      case 5:
        text.insert(at, std::string(text, at, length));
        break;
      default:
        text.resize(at);
        break;
    }
  }
  return text;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3) {
    std::fprintf(stderr, "usage: %s FOLDER [COPIES]\n", argv[0]);
    return 2;
  }
  const int copies = argc == 3 ? std::atoi(argv[2]) : 0;
  crash_file = "crash-" + std::filesystem::path(argv[0]).filename().string();
  for (const int signal : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL}) {
    std::signal(signal, keep_input);
  }
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(argv[1])) {
    files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  std::vector<std::string> seeds;
  for (const auto& path : files) {
    std::ifstream in(path, std::ios::binary);
    seeds.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  if (seeds.empty()) {
    std::fprintf(stderr, "%s: no seeds in %s\n", argv[0], argv[1]);
    return 1;
  }
  for (const std::string& seed : seeds) run(seed);
  std::mt19937 random(1);
  for (int i = 0; i < copies; ++i) run(damaged(seeds[random() % seeds.size()], seeds, random));
  std::printf("%zu seeds, and %d damaged copies\n", seeds.size(), copies);
  return 0;
}
