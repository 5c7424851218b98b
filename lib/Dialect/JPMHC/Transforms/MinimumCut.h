// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef JPMHC_LIB_TRANSFORMS_MINIMUMCUT_H
#define JPMHC_LIB_TRANSFORMS_MINIMUMCUT_H

#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/SmallVector.h"
#include <cstdint>
#include <vector>

namespace jpmhc {

/// A directed graph with capacities, and the minimum cut between two of its
/// nodes (Edmonds–Karp: shortest augmenting paths).
class MinimumCut {
public:
  unsigned addNode();
  void addEdge(unsigned from, unsigned to, int64_t capacity);

  /// The nodes on the side of `source`. Of several minimum cuts it is the one
  /// nearest to the source.
  llvm::BitVector solve(unsigned source, unsigned sink);

private:
  struct Edge {
    unsigned to;
    int64_t capacity; ///< what is left of it
  };

  /// Edges to the nodes reached from `source` through capacity, by node; -1
  /// where there is none.
  std::vector<int64_t> search(unsigned source);

  std::vector<Edge> edges; ///< edge i runs against edge i ^ 1
  std::vector<llvm::SmallVector<unsigned, 4>> outgoing;
};

} // namespace jpmhc

#endif // JPMHC_LIB_TRANSFORMS_MINIMUMCUT_H
