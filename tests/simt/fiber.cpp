#include "simt/fiber.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <new>

// swapcontext asks the kernel for the signal mask at each switch, 0.3 us; these instructions are
// the rest of it: the registers that a call keeps go to the stack, and the stack is exchanged.
#if defined(__x86_64__)
asm(R"(
  .pushsection .text
  .globl trencadis_simt_switch
  .hidden trencadis_simt_switch
  .type trencadis_simt_switch, @function
trencadis_simt_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
  .size trencadis_simt_switch, . - trencadis_simt_switch
  .popsection
)");
#elif defined(__aarch64__)
asm(R"(
  .pushsection .text
  .globl trencadis_simt_switch
  .hidden trencadis_simt_switch
  .type trencadis_simt_switch, %function
trencadis_simt_switch:
  stp x29, x30, [sp, #-160]!
  stp x19, x20, [sp, #16]
  stp x21, x22, [sp, #32]
  stp x23, x24, [sp, #48]
  stp x25, x26, [sp, #64]
  stp x27, x28, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp x19, x20, [sp, #16]
  ldp x21, x22, [sp, #32]
  ldp x23, x24, [sp, #48]
  ldp x25, x26, [sp, #64]
  ldp x27, x28, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  ldp x29, x30, [sp], #160
  ret
  .size trencadis_simt_switch, . - trencadis_simt_switch
  .popsection
)");
#endif

namespace trencadis::simt {

#if defined(TRENCADIS_SIMT_UCONTEXT)

void Context::prepare(char* stack, std::size_t bytes, void (*entry)()) {
  getcontext(&context_);
  context_.uc_stack.ss_sp = stack;
  context_.uc_stack.ss_size = bytes;
  context_.uc_link = nullptr;
  makecontext(&context_, entry, 0);
}

void Context::switch_between(Context& from, const Context& to) {
  swapcontext(&from.context_, &to.context_);
}

#else

extern "C" void trencadis_simt_switch(void** from, void* to);

// The frame that the first switch pops: zeros for the registers, and the entry to return to. Above
// it a return address of zero ends the walk of a debugger.
void Context::prepare(char* stack, std::size_t bytes, void (*entry)()) {
#if defined(__x86_64__)
  constexpr std::size_t kWords = 8;  // six registers, entry, zero: the alignment of a call
  constexpr std::size_t kEntry = 6;
#else
  constexpr std::size_t kWords = 20;
  constexpr std::size_t kEntry = 1;  // x30
#endif
  char* const frame = stack + bytes - kWords * sizeof(std::uintptr_t);
  std::uintptr_t words[kWords] = {};
  words[kEntry] = reinterpret_cast<std::uintptr_t>(entry);
  std::memcpy(frame, words, sizeof words);
  stack_pointer_ = frame;
}

void Context::switch_between(Context& from, const Context& to) {
  trencadis_simt_switch(&from.stack_pointer_, to.stack_pointer_);
}

#endif

Stacks::~Stacks() {
  release();
}

void Stacks::release() {
  if (memory_ != nullptr) munmap(memory_ - guard_, stride_ * static_cast<std::size_t>(count_));
  memory_ = nullptr;
}

void Stacks::reserve(int count) {
  if (count <= count_) return;
  release();
  count_ = 0;
  guard_ = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  stride_ = guard_ + kBytes;
  void* const memory = mmap(nullptr, stride_ * static_cast<std::size_t>(count),
                            PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  memory_ = static_cast<char*>(memory) + guard_;
  count_ = count;
  for (int i = 0; i < count; ++i) {
    // Without the guard an overflow goes unseen, and nothing else changes.
    static_cast<void>(mprotect((*this)[i] - guard_, guard_, PROT_NONE));
  }
}

}  // namespace trencadis::simt
