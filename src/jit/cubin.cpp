#include "jit/cubin.h"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "base/check.h"

namespace trencadis::jit {
namespace {

constexpr std::uint16_t kMachineCuda = 190;
constexpr std::uint8_t kKernelFlag = 0x10;  // in a symbol's st_other

// Section .nv.info: records of a format, an attribute and a 16-bit size or value.
constexpr std::uint8_t kSizedFormat = 4;  // `size` bytes follow
constexpr std::uint8_t kFrameSize = 0x11;
constexpr std::uint8_t kMinStackSize = 0x12;  // with the frames of what is called
constexpr std::uint8_t kRegisterCount = 0x2f;

// From sm_90 on, shared memory begins with what the system keeps for itself; a section of this name
// says so, and the sections of kernels count it.
constexpr std::string_view kReservedShared = ".nv.shared.reserved.0";
constexpr std::uint64_t kReservedSharedBytes = 1024;

// More is damage.
constexpr std::int64_t kMostRegisters = 255;
constexpr std::uint64_t kMostSharedBytes = 1 << 20;

template <class... Args>
[[noreturn]] void damaged(fmt::format_string<Args...> text, Args&&... args) {
  base::fail(ErrorKind::io, "the device code cannot be read: {}",
             fmt::format(text, std::forward<Args>(args)...));
}

/// What .nv.info says of a symbol.
struct Attributes {
  std::int64_t registers = -1;  // negative: nothing is said
  std::int64_t frame = -1;
  std::int64_t stack = -1;
};

/// By the index of the symbol.
std::map<std::uint32_t, Attributes> parse_info(std::span<const std::byte> info) {
  struct Head {
    std::uint8_t format;
    std::uint8_t attribute;
    std::uint16_t size;
  };
  struct Value {
    std::uint32_t symbol;
    std::uint32_t value;
  };
  std::map<std::uint32_t, Attributes> all;
  for (std::size_t at = 0; at < info.size();) {
    Head head{};
    if (info.size() - at < sizeof head) damaged(".nv.info ends within a record");
    std::memcpy(&head, info.data() + at, sizeof head);
    at += sizeof head;
    if (head.format != kSizedFormat) continue;
    if (info.size() - at < head.size) damaged(".nv.info ends within a record");
    Value value{};
    const bool wanted = head.attribute == kFrameSize || head.attribute == kMinStackSize ||
                        head.attribute == kRegisterCount;
    if (wanted) {
      if (head.size != sizeof value)
        damaged("a record {:#x} of .nv.info has {} bytes, expected {}", head.attribute, head.size,
                sizeof value);
      std::memcpy(&value, info.data() + at, sizeof value);
      Attributes& attributes = all[value.symbol];
      (head.attribute == kFrameSize      ? attributes.frame
       : head.attribute == kMinStackSize ? attributes.stack
                                         : attributes.registers) = value.value;
    }
    at += head.size;
  }
  return all;
}

}  // namespace

template <class T>
T Cubin::read(std::uint64_t offset, std::string_view what) const {
  if (offset > bytes_.size() || bytes_.size() - offset < sizeof(T))
    damaged("{} lies at byte {}, it has {} bytes", what, offset, bytes_.size());
  T value;
  std::memcpy(&value, bytes_.data() + offset, sizeof value);
  return value;
}

std::span<const std::byte> Cubin::contents(const Section& section) const {
  if (section.type == SHT_NOBITS) return {};
  if (section.offset > bytes_.size() || bytes_.size() - section.offset < section.size)
    damaged("section '{}' has {} bytes from byte {}, it has {} bytes", section.name, section.size,
            section.offset, bytes_.size());
  return bytes_.subspan(section.offset, section.size);
}

std::string_view Cubin::string_at(const Section& strings, std::uint64_t offset) const {
  const std::span<const std::byte> table = contents(strings);
  if (offset >= table.size())
    damaged("a name lies at byte {} of a table of {} bytes", offset, table.size());
  const auto* begin = reinterpret_cast<const char*>(table.data()) + offset;
  const void* end = std::memchr(begin, 0, table.size() - offset);
  if (end == nullptr) damaged("a table of names does not end");
  return {begin, static_cast<std::size_t>(static_cast<const char*>(end) - begin)};
}

const Cubin::Section* Cubin::find_section(std::string_view name) const {
  const auto found = std::find_if(sections_.begin(), sections_.end(),
                                  [&](const Section& section) { return section.name == name; });
  return found == sections_.end() ? nullptr : &*found;
}

Cubin::Cubin(std::span<const std::byte> bytes) : bytes_(bytes) {
  read_sections();
  read_symbols();
}

void Cubin::read_sections() {
  const auto header = read<Elf64_Ehdr>(0, "its header");
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) damaged("it is no ELF file");
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB ||
      header.e_machine != kMachineCuda)
    damaged("it is an ELF file of class {}, byte order {} and machine {}, expected {}, {} and {}",
            header.e_ident[EI_CLASS], header.e_ident[EI_DATA], header.e_machine, ELFCLASS64,
            ELFDATA2LSB, kMachineCuda);
  if (header.e_shentsize != sizeof(Elf64_Shdr))
    damaged("a section header has {} bytes, expected {}", header.e_shentsize, sizeof(Elf64_Shdr));
  if (header.e_shoff > bytes_.size())
    damaged("the section headers lie at byte {}, it has {} bytes", header.e_shoff, bytes_.size());
  std::vector<std::uint32_t> names;
  for (std::size_t i = 0; i < header.e_shnum; ++i) {
    const auto raw = read<Elf64_Shdr>(header.e_shoff + i * sizeof(Elf64_Shdr), "a section header");
    sections_.push_back({.name = {},
                         .type = raw.sh_type,
                         .link = raw.sh_link,
                         .offset = raw.sh_offset,
                         .size = raw.sh_size});
    names.push_back(raw.sh_name);
  }
  if (header.e_shstrndx >= sections_.size())
    damaged("section {} has the names of {} sections", header.e_shstrndx, sections_.size());
  for (std::size_t i = 0; i < sections_.size(); ++i)
    sections_[i].name = string_at(sections_[header.e_shstrndx], names[i]);
}

void Cubin::read_symbols() {
  const Section* table = find_section(".symtab");
  if (table == nullptr) damaged("it has no table of symbols");
  if (table->link >= sections_.size())
    damaged("section {} of {} has the names of symbols", table->link, sections_.size());
  const std::uint64_t bytes = contents(*table).size();
  for (std::uint64_t at = 0; at + sizeof(Elf64_Sym) <= bytes; at += sizeof(Elf64_Sym)) {
    const auto raw = read<Elf64_Sym>(table->offset + at, "a symbol");
    symbols_.push_back({.name = string_at(sections_[table->link], raw.st_name),
                        .type = static_cast<std::uint8_t>(ELF64_ST_TYPE(raw.st_info)),
                        .other = raw.st_other,
                        .section = raw.st_shndx,
                        .value = raw.st_value,
                        .size = raw.st_size});
  }
}

std::vector<CubinKernel> Cubin::kernels() const {
  const Section* info = find_section(".nv.info");
  if (info == nullptr) damaged("it has no section .nv.info");
  const std::map<std::uint32_t, Attributes> attributes = parse_info(contents(*info));
  const bool reserves = find_section(kReservedShared) != nullptr;

  std::vector<CubinKernel> kernels;
  for (std::size_t i = 0; i < symbols_.size(); ++i) {
    const Symbol& symbol = symbols_[i];
    if (symbol.type != STT_FUNC || (symbol.other & kKernelFlag) == 0) continue;
    const auto said = attributes.find(static_cast<std::uint32_t>(i));
    if (said == attributes.end() || said->second.registers < 0 || said->second.stack < 0)
      damaged("it does not say what kernel '{}' needs", symbol.name);
    if (said->second.registers > kMostRegisters)
      damaged("kernel '{}' has {} registers, {} at most", symbol.name, said->second.registers,
              kMostRegisters);
    CubinKernel kernel{.name = std::string(symbol.name),
                       .registers = static_cast<int>(said->second.registers),
                       .stack_bytes = std::max(said->second.frame, said->second.stack)};
    if (const Section* shared = find_section(".nv.shared." + kernel.name)) {
      if (shared->size > kMostSharedBytes)
        damaged("kernel '{}' has {} bytes of shared memory", kernel.name, shared->size);
      const std::uint64_t reserved = reserves ? kReservedSharedBytes : 0;
      kernel.static_shared_bytes =
          static_cast<std::int64_t>(shared->size - std::min(shared->size, reserved));
    }
    kernels.push_back(std::move(kernel));
  }
  if (kernels.empty()) damaged("it has no kernel");
  std::sort(kernels.begin(), kernels.end(),
            [](const CubinKernel& a, const CubinKernel& b) { return a.name < b.name; });
  return kernels;
}

std::int32_t Cubin::int_value(std::string_view variable) const {
  const auto symbol = std::find_if(symbols_.begin(), symbols_.end(), [&](const Symbol& candidate) {
    return candidate.type == STT_OBJECT && candidate.name == variable;
  });
  base::check(symbol != symbols_.end(), "the device code has no variable '{}'", variable);
  base::check(symbol->size == sizeof(std::int32_t), "variable '{}' has {} bytes, an int has {}",
              variable, symbol->size, sizeof(std::int32_t));
  if (symbol->section >= sections_.size())
    damaged("variable '{}' lies in section {} of {}", variable, symbol->section, sections_.size());
  const Section& section = sections_[symbol->section];
  if (symbol->value > section.size || section.size - symbol->value < sizeof(std::int32_t))
    damaged("variable '{}' lies at byte {} of the {} of section '{}'", variable, symbol->value,
            section.size, section.name);
  if (section.type == SHT_NOBITS) return 0;
  std::int32_t value = 0;
  std::memcpy(&value, contents(section).data() + symbol->value, sizeof value);
  return value;
}

}  // namespace trencadis::jit
