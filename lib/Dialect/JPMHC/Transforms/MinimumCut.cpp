// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "MinimumCut.h"
#include <algorithm>
#include <limits>

using namespace jpmhc;

unsigned MinimumCut::addNode() {
  outgoing.emplace_back();
  return outgoing.size() - 1;
}

void MinimumCut::addEdge(unsigned from, unsigned to, int64_t capacity) {
  outgoing[from].push_back(edges.size());
  edges.push_back({to, capacity});
  outgoing[to].push_back(edges.size());
  edges.push_back({from, 0});
}

std::vector<int64_t> MinimumCut::search(unsigned source) {
  std::vector<int64_t> reachedBy(outgoing.size(), -1);
  std::vector<unsigned> queue{source};
  for (size_t i = 0; i < queue.size(); ++i)
    for (unsigned e : outgoing[queue[i]]) {
      unsigned to = edges[e].to;
      if (edges[e].capacity == 0 || reachedBy[to] >= 0 || to == source)
        continue;
      reachedBy[to] = e;
      queue.push_back(to);
    }
  return reachedBy;
}

llvm::BitVector MinimumCut::solve(unsigned source, unsigned sink) {
  std::vector<int64_t> reachedBy = search(source);
  for (; reachedBy[sink] >= 0; reachedBy = search(source)) {
    int64_t flow = std::numeric_limits<int64_t>::max();
    for (unsigned n = sink; n != source; n = edges[reachedBy[n] ^ 1].to)
      flow = std::min(flow, edges[reachedBy[n]].capacity);
    for (unsigned n = sink; n != source; n = edges[reachedBy[n] ^ 1].to) {
      edges[reachedBy[n]].capacity -= flow;
      edges[reachedBy[n] ^ 1].capacity += flow;
    }
  }
  llvm::BitVector side(outgoing.size());
  side.set(source);
  for (unsigned n = 0; n < outgoing.size(); ++n)
    if (reachedBy[n] >= 0)
      side.set(n);
  return side;
}
