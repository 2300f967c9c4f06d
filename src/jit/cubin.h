// What device code says of itself, read from the bytes of a cubin: no device, driver or toolkit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trencadis::jit {

struct CubinKernel {
  std::string name;
  int registers = 0;                     // of a thread
  std::int64_t stack_bytes = 0;          // of a thread, in local memory: spills and local arrays
  std::int64_t static_shared_bytes = 0;  // of a CTA, as ptxas -v counts them
};

/// A cubin for sm_75 and later, as NVRTC and nvcc 13.0 write them. Its format is not documented:
/// what is read here was found by compiling known kernels, and tests hold it against ptxas -v.
///
/// Any bytes may be given: what is no cubin, or is damaged where one of these functions looks,
/// raises Error(io) that says what is wrong.
class Cubin {
 public:
  /// The bytes must outlive this.
  explicit Cubin(std::span<const std::byte> bytes);

  /// The kernels, sorted by name; functions that kernels call are part of them.
  std::vector<CubinKernel> kernels() const;

  /// The initial value of an int variable in __constant__ or global memory. Throws
  /// Error(invalid_argument) where there is no such variable, or it is no int.
  std::int32_t int_value(std::string_view variable) const;

 private:
  struct Section {
    std::string_view name;
    std::uint32_t type = 0;
    std::uint32_t link = 0;    // the section that this one refers to
    std::uint64_t offset = 0;  // in the file
    std::uint64_t size = 0;    // also where the section takes no bytes of the file
  };
  struct Symbol {
    std::string_view name;
    std::uint8_t type = 0;
    std::uint8_t other = 0;
    std::uint16_t section = 0;
    std::uint64_t value = 0;  // bytes from the section's start
    std::uint64_t size = 0;
  };

  template <class T>
  T read(std::uint64_t offset, std::string_view what) const;
  std::span<const std::byte> contents(const Section& section) const;
  std::string_view string_at(const Section& strings, std::uint64_t offset) const;
  const Section* find_section(std::string_view name) const;
  void read_sections();
  void read_symbols();

  std::span<const std::byte> bytes_;
  std::vector<Section> sections_;
  std::vector<Symbol> symbols_;  // in the file's order: records name them by index
};

}  // namespace trencadis::jit
