// Products of a warpgroup's matrices: one warp's share of them, its 16 rows, from the issue to the
// wait.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "simt/emulator.h"

namespace trencadis::simt {

class Products {
 public:
  /// Of a warp that has just started.
  void clear();

  // For the lanes of the warp together; what is wrong goes to fail().

  void begin() { begun_ = true; }
  /// Takes the accumulators away from the lanes until the wait.
  void issue(const WarpgroupCall* const* lanes);
  void commit() { groups_.push_back(products_.size()); }
  /// Ends all groups but the latest `pending`.
  void wait(int pending);

  /// Reads the operands of all that is under way, which hardware may do at any moment.
  void perform();

  bool under_way() const { return !products_.empty(); }

 private:
  /// Taken from the lanes: 16 rows of the matrix.
  struct Accumulators {
    float* lanes[kWarpSize];
    int columns;
    int products = 0;  // under way
    std::vector<float> sums;
  };
  struct Product {
    WarpgroupCall call;  // of lane 0
    std::size_t accumulators;
    const unsigned* rows[kWarpSize];
    bool performed = false;
  };

  std::size_t take(const WarpgroupCall* const* lanes);
  void give_back(Accumulators& accumulators);
  void perform(Product& product);

  std::vector<Product> products_;      // under way, oldest first
  std::vector<std::size_t> groups_;    // the number of products up to the end of each group
  std::vector<Accumulators> storage_;  // free where no product is under way
  bool begun_ = false;                 // since the latest wait
};

}  // namespace trencadis::simt
