// An AttentionSpec as text: for command lines, configuration files and messages.
//
// The short form is a list of options, a flag being one without a value:
//
//   head_dim=128,dtype=bf16,causal,soft_cap=30
//
// The long form is a JSON object with the same keys, {"head_dim": 128, "causal": true}:
//
//   head_dim            D_qk, 128 unless given; head_dim_vo: D_vo, unless it is the same
//   dtype               of q, k, v and o, bf16 unless given; dtype_q, dtype_kv, dtype_o: one by one
//   lse_base            natural or two
//   causal, window_left, window_right, sinks
//   soft_cap, alibi, custom_mask, prefix_lm, document_mask
//   rope                a flag, with rope_interleaved, rope_dim and rope_positions (explicit ones);
//                       the frequencies are a tensor, given to run()
//   sigmoid             a flag, with sigmoid_bias; not with the options of softmax
//   functor             a variant of one's own, with source (C++ text), tensors
//                       [{"name": "bias", "dtype": "f32"}], scalars [{"name": "cap", "value": 1}]
//                       and use_softmax
#pragma once

#include <trencadis/attention_spec.h>

#include <string>
#include <string_view>

namespace trencadis {

/// Either form. Throws Error(invalid_argument) for text that is neither, an unknown key, a value of
/// the wrong kind or an option that does not go with the others, with the key and what was
/// expected. A functor's names, and whether its source is there, are checked where the spec is
/// used.
AttentionSpec parse_spec(std::string_view text);

/// The long form on one line, everything spelt out: parse_spec(to_json(spec)) == spec.
std::string to_json(const AttentionSpec& spec);

}  // namespace trencadis
