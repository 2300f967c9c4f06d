// All stock functors and their composition.
#pragma once

#include "variant/chain.h"
#include "variant/logits.h"
#include "variant/masks.h"
#include "variant/rope.h"
