// A file descriptor with an owner.
#pragma once

#include <unistd.h>

#include <utility>

namespace trencadis::jit {

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor() { reset(); }

  bool valid() const noexcept { return number_ >= 0; }
  int number() const noexcept { return number_; }
  /// Gives the descriptor up without closing it.
  int release() noexcept { return std::exchange(number_, -1); }
  void reset() noexcept {
    if (valid()) close(release());
  }

 private:
  int number_ = -1;
};

}  // namespace trencadis::jit
