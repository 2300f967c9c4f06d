// The public API of Trencadis: the one include that a caller needs.
#pragma once

#include <trencadis/attention.h>
#include <trencadis/attention_spec.h>
#include <trencadis/block_sparse.h>
#include <trencadis/composition.h>
#include <trencadis/device.h>
#include <trencadis/device_limits.h>
#include <trencadis/dtype.h>
#include <trencadis/error.h>
#include <trencadis/index_span.h>
#include <trencadis/kv_cache.h>
#include <trencadis/plan.h>
#include <trencadis/runtime.h>
#include <trencadis/spec_text.h>
#include <trencadis/tensor_view.h>
#include <trencadis/variant.h>
#include <trencadis/version.h>
