#include "backends/reference/stock_variants.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/check.h"

namespace trencadis::reference {
namespace {

using base::check;

/// The extra tensors and scalars of one run, by name.
class Values {
 public:
  Values(const Variant& variant, std::span<const void* const> tensors,
         std::span<const double> scalars)
      : variant_(variant), tensors_(tensors), scalars_(scalars) {
    check(tensors.size() == variant.tensors.size(), "{} extra tensors given, expected {}",
          tensors.size(), variant.tensors.size());
    check(scalars.empty() || scalars.size() == variant.scalars.size(),
          "{} extra scalars given, expected none or {}", scalars.size(), variant.scalars.size());
  }

  bool has_tensor(std::string_view name) const {
    return std::any_of(variant_.tensors.begin(), variant_.tensors.end(),
                       [&](const ExtraTensor& tensor) { return tensor.name == name; });
  }

  template <class T>
  const T* tensor(std::string_view name) const {
    for (std::size_t i = 0; i < variant_.tensors.size(); ++i) {
      if (variant_.tensors[i].name == name) return static_cast<const T*>(tensors_[i]);
    }
    missing("tensor", name);
  }

  double scalar(std::string_view name) const {
    for (std::size_t i = 0; i < variant_.scalars.size(); ++i) {
      if (variant_.scalars[i].name != name) continue;
      return scalars_.empty() ? variant_.scalars[i].value : scalars_[i];
    }
    missing("scalar", name);
  }

 private:
  [[noreturn]] void missing(std::string_view what, std::string_view name) const {
    base::fail(ErrorKind::invalid_argument, "variant '{}' declares no {} '{}', expected one",
               variant_.functor, what, name);
  }

  const Variant& variant_;
  std::span<const void* const> tensors_;
  std::span<const double> scalars_;
};

/// (x, y) turned by `angle`.
void rotate(double& x, double& y, double angle) {
  const double turned_x = x * std::cos(angle) - y * std::sin(angle);
  y = y * std::cos(angle) + x * std::sin(angle);
  x = turned_x;
}

void add_rope(Hooks& hooks, const Values& values) {
  const auto rotary_dim = static_cast<std::size_t>(values.scalar("rope_dim"));  // 0: the whole row
  const bool interleaved = values.scalar("rope_interleaved") != 0.0;
  const auto* inv_freq = values.tensor<float>("rope_inv_freq");
  const auto turn = [=](std::span<double> row, std::int64_t position) {
    const std::size_t pairs = (rotary_dim == 0 ? row.size() : rotary_dim) / 2;
    for (std::size_t i = 0; i < pairs; ++i) {
      const double angle = static_cast<double>(position) * inv_freq[i];
      if (interleaved) {
        rotate(row[2 * i], row[2 * i + 1], angle);
      } else {
        rotate(row[i], row[i + pairs], angle);
      }
    }
  };
  if (!values.has_tensor("q_positions")) {
    hooks.query = [=](std::span<double> row, const At& at) { turn(row, at.position()); };
    hooks.key = [=](std::span<double> row, const At& at) { turn(row, at.key); };
    return;
  }
  const auto* q_positions = values.tensor<std::int32_t>("q_positions");
  const auto* kv_positions = values.tensor<std::int32_t>("kv_positions");
  const auto* indptr = values.tensor<std::int64_t>("kv_position_indptr");
  hooks.query = [=](std::span<double> row, const At& at) { turn(row, q_positions[at.token]); };
  hooks.key = [=](std::span<double> row, const At& at) {
    turn(row, kv_positions[indptr[at.request] + at.key]);
  };
}

/// `next` after what the hooks do already.
void then(Hooks& hooks, std::function<double(double, const At&)> next) {
  if (!hooks.logit) {
    hooks.logit = std::move(next);
    return;
  }
  hooks.logit = [before = std::move(hooks.logit), after = std::move(next)](
                    double logit, const At& at) { return after(before(logit, at), at); };
}

void and_mask(Hooks& hooks, std::function<bool(const At&)> next) {
  if (!hooks.mask) {
    hooks.mask = std::move(next);
    return;
  }
  hooks.mask = [one = std::move(hooks.mask), other = std::move(next)](const At& at) {
    return one(at) && other(at);
  };
}

void add_soft_cap(Hooks& hooks, const Values& values) {
  const double cap = values.scalar("soft_cap");
  then(hooks, [=](double logit, const At&) { return cap * std::tanh(logit / cap); });
}

void add_alibi(Hooks& hooks, const Values& values) {
  const auto* slopes = values.tensor<float>("alibi_slopes");
  then(hooks, [=](double logit, const At& at) {
    return logit + slopes[at.qo_head] * static_cast<double>(at.key - at.position());
  });
}

void add_sigmoid(Hooks& hooks, const Values& values) {
  const double bias = values.scalar("sigmoid_bias");
  then(hooks, [=](double logit, const At&) { return 1.0 / (1.0 + std::exp(-(logit + bias))); });
}

void add_packed_mask(Hooks& hooks, const Values& values) {
  const auto* bits = values.tensor<std::uint8_t>("packed_mask");
  const auto* indptr = values.tensor<std::int64_t>("mask_indptr");
  and_mask(hooks, [=](const At& at) {
    const std::int64_t bit = at.row * at.l_kv + at.key;
    return ((bits[indptr[at.request] + bit / 8] >> (bit % 8)) & 1) != 0;
  });
}

void add_prefix_lm(Hooks& hooks, const Values& values) {
  const auto* prefix_lens = values.tensor<std::int32_t>("prefix_lens");
  and_mask(hooks, [=](const At& at) {
    return at.key < prefix_lens[at.request] || at.key <= at.position();
  });
}

void add_document_mask(Hooks& hooks, const Values& values) {
  const auto* q_documents = values.tensor<std::int32_t>("q_documents");
  const auto* kv_documents = values.tensor<std::int32_t>("kv_documents");
  const auto* indptr = values.tensor<std::int64_t>("kv_document_indptr");
  and_mask(hooks, [=](const At& at) {
    return q_documents[at.token] == kv_documents[indptr[at.request] + at.key];
  });
}

using AddComponent = void (*)(Hooks&, const Values&);

constexpr std::array<std::pair<std::string_view, AddComponent>, 7> kComponents{{
    {"Rope", add_rope},
    {"SoftCap", add_soft_cap},
    {"Alibi", add_alibi},
    {"Sigmoid", add_sigmoid},
    {"PackedMask", add_packed_mask},
    {"PrefixLm", add_prefix_lm},
    {"DocumentMask", add_document_mask},
}};

AddComponent find_component(std::string_view name) {
  for (const auto& [known, add] : kComponents) {
    if (known == name) return add;
  }
  return nullptr;
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

}  // namespace

std::vector<std::string> components(std::string_view functor) {
  constexpr std::string_view kChain = "Chain<";
  std::string_view rest = trim(functor);
  if (rest.starts_with(kChain) && rest.ends_with('>')) {
    rest.remove_prefix(kChain.size());
    rest.remove_suffix(1);
  }
  std::vector<std::string> names;
  while (!trim(rest).empty()) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    names.emplace_back(trim(rest.substr(0, comma)));
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  return names;
}

std::string unsupported_reason(const Variant& variant) {
  if (!variant.source.empty()) {
    return fmt::format(
        "the variant '{}' has C++ source, and the reference knows the stock functors only",
        variant.functor);
  }
  for (const std::string& name : components(variant.functor)) {
    if (find_component(name) != nullptr) continue;
    std::vector<std::string_view> known;
    for (const auto& entry : kComponents) known.push_back(entry.first);
    return fmt::format("the reference has no functor '{}'; supported: {}", name,
                       fmt::join(known, ", "));
  }
  return "";
}

Hooks stock_hooks(const Variant& variant, std::span<const void* const> tensors,
                  std::span<const double> scalars) {
  if (const std::string reason = unsupported_reason(variant); !reason.empty()) {
    base::fail(ErrorKind::not_supported, "{}", reason);
  }
  const Values values(variant, tensors, scalars);
  Hooks hooks;
  for (const std::string& name : components(variant.functor)) find_component(name)(hooks, values);
  return hooks;
}

}  // namespace trencadis::reference
