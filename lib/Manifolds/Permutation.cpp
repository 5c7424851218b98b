// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Mixtures of a basis of permutations: H = Σ_k softmax(z)_k P_k with
// (P x)_i = x[perm[i]].
#include "jpmhc/Kernels/SmallMatrix.h"
#include "jpmhc/Manifolds/Manifold.h"
#include <numeric>

using namespace mlir;
using namespace jpmhc;

namespace {
using Order = SmallVector<int64_t, 16>;

constexpr int64_t kDefaultCount = 6;
constexpr int64_t kMaxStreamsOfAll = 5;

Order identityOrder(int64_t n) {
  Order order(n);
  std::iota(order.begin(), order.end(), 0);
  return order;
}

/// n!, or `limit` if that is less.
int64_t factorialUpTo(int64_t n, int64_t limit) {
  int64_t product = 1;
  for (int64_t i = 2; i <= n && product < limit; ++i)
    product *= i;
  return std::min(product, limit);
}

/// Identity, adjacent transpositions, cyclic shifts, then the remaining
/// permutations in lexicographic order.
std::vector<Order> defaultBasis(int64_t n, int64_t count) {
  std::vector<Order> basis;
  auto add = [&](const Order &order) {
    if (static_cast<int64_t>(basis.size()) < count &&
        !llvm::is_contained(basis, order))
      basis.push_back(order);
  };
  add(identityOrder(n));
  for (int64_t i = 0; i + 1 < n; i += 2) {
    Order order = identityOrder(n);
    std::swap(order[i], order[i + 1]);
    add(order);
  }
  for (int64_t shift : {int64_t(1), n - 1}) {
    Order order = identityOrder(n);
    for (int64_t &to : order)
      to = (to + shift) % n;
    add(order);
  }
  Order order = identityOrder(n);
  do
    add(order);
  while (static_cast<int64_t>(basis.size()) < count &&
         std::next_permutation(order.begin(), order.end()));
  return basis;
}

bool isPermutation(Attribute attribute) {
  auto list = dyn_cast<ArrayAttr>(attribute);
  if (!list || list.empty())
    return false;
  SmallVector<bool> seen(list.size());
  for (Attribute element : list) {
    std::optional<int64_t> number = integerOf(element);
    if (!number || *number < 0 ||
        *number >= static_cast<int64_t>(list.size()) || seen[*number])
      return false;
    seen[*number] = true;
  }
  return true;
}

bool isBasis(Attribute attribute) {
  if (auto text = dyn_cast<StringAttr>(attribute))
    return text.getValue() == "all";
  auto list = dyn_cast<ArrayAttr>(attribute);
  if (!list || list.empty() || !llvm::all_of(list, isPermutation))
    return false;
  return llvm::all_of(list, [&](Attribute order) {
    return cast<ArrayAttr>(order).size() == cast<ArrayAttr>(list[0]).size();
  });
}

class Permutation : public Manifold {
public:
  StringRef name() const override { return "permutation"; }
  StringRef doc() const override {
    return "Mixtures of permutations: H = Σ_k softmax(raw)_k P_k over a basis.";
  }
  std::vector<ManifoldParameter> parameters() const override {
    ManifoldParameter basis;
    basis.name = "basis";
    basis.doc = "the permutations, or \"all\" (n ≤ 5); by default identity, "
                "adjacent transpositions, cyclic shifts, then the others in "
                "lexicographic order up to `count`";
    basis.expected = "\"all\" or a list of permutations of equal size";
    basis.accepts = isBasis;
    return {std::move(basis),
            ManifoldParameter::integer(
                "count",
                "size of the default basis; 6 (at most n!) when left "
                "out",
                1, 720, std::nullopt)};
  }
  LogicalResult verify(EmitError emitError,
                       const ManifoldParameters &p) const override {
    if (p.has("basis") && p.has("count"))
      return emitError() << "expected basis or count of permutation, got both";
    return success();
  }
  LogicalResult verifyStreams(EmitError emitError, int64_t n,
                              const ManifoldParameters &p) const override {
    if (p.has("count") && p.integer("count") > factorialUpTo(n, 1000))
      return emitError() << "expected count of permutation to be at most "
                         << factorialUpTo(n, 1000) << " for " << n
                         << " streams, got " << p.integer("count");
    auto list = dyn_cast_or_null<ArrayAttr>(p.get("basis"));
    if (list && static_cast<int64_t>(cast<ArrayAttr>(list[0]).size()) != n)
      return emitError() << "expected basis of permutation to permute " << n
                         << " streams, got " << cast<ArrayAttr>(list[0]).size();
    if (p.has("basis") && !list && n > kMaxStreamsOfAll)
      return emitError() << "expected at most " << kMaxStreamsOfAll
                         << " streams with all permutations, got " << n;
    return success();
  }
  int64_t rawSize(int64_t n, const ManifoldParameters &p) const override {
    return basisOf(n, p).size();
  }

  SmallMatrix emit(SmallMath &m, int64_t n, const ManifoldParameters &p,
                   const SmallMatrix &raw) const override {
    std::vector<Order> basis = basisOf(n, p);
    SmallMatrix weights = softmax(m, raw);
    SmallMatrix h = m.matrix(n, n, [&](Pos, Pos) { return m.number(0); });
    for (auto [k, order] : llvm::enumerate(basis))
      for (int64_t i = 0; i < n; ++i)
        h.add(i, order[i], weights(static_cast<int64_t>(k)));
    return h;
  }

  SmallMatrix emitVjp(SmallMath &m, int64_t n, const ManifoldParameters &p,
                      const SmallMatrix &raw,
                      const SmallMatrix &dH) const override {
    std::vector<Order> basis = basisOf(n, p);
    int64_t count = basis.size();
    SmallMatrix weights = softmax(m, raw);
    SmallMatrix d = m.vector(count);
    for (int64_t k = 0; k < count; ++k) {
      Val total = dH(0, basis[k][0]);
      for (int64_t i = 1; i < n; ++i)
        total = total + dH(i, basis[k][i]);
      d.set(k, total);
    }
    Val mean = m.sum(count, [&](Pos k) { return weights(k) * d(k); });
    return m.vector(count, [&](Pos k) { return weights(k) * (d(k) - mean); });
  }

  ManifoldCost cost(int64_t n, const ManifoldParameters &p) const override {
    int64_t count = rawSize(n, p);
    return {count * (n + 3), count};
  }
  std::vector<double> initialBias(int64_t n,
                                  const ManifoldParameters &p) const override {
    std::vector<double> bias;
    for (const Order &order : basisOf(n, p))
      bias.push_back(order == identityOrder(n) ? 4 : 0);
    return bias;
  }

private:
  static std::vector<Order> basisOf(int64_t n, const ManifoldParameters &p) {
    auto list = dyn_cast_or_null<ArrayAttr>(p.get("basis"));
    if (!list) {
      int64_t count = p.has("basis")   ? factorialUpTo(n, 1000)
                      : p.has("count") ? p.integer("count")
                                       : factorialUpTo(n, kDefaultCount);
      return defaultBasis(n, count);
    }
    std::vector<Order> basis;
    for (Attribute entry : list) {
      Order order;
      for (Attribute to : cast<ArrayAttr>(entry))
        order.push_back(*integerOf(to));
      basis.push_back(order);
    }
    return basis;
  }

  static SmallMatrix softmax(SmallMath &m, const SmallMatrix &raw) {
    int64_t count = raw.rows();
    Val largest = m.maximum(count, [&](Pos k) { return raw(k); });
    SmallMatrix weights =
        m.vector(count, [&](Pos k) { return exp(raw(k) - largest); });
    Val inverse = 1.0 / m.sum(count, [&](Pos k) { return weights(k); });
    m.forEach(count, [&](Pos k) { weights.set(k, weights(k) * inverse); });
    return weights;
  }
};
} // namespace

namespace jpmhc {
std::unique_ptr<Manifold> createPermutation() {
  return std::make_unique<Permutation>();
}
} // namespace jpmhc
