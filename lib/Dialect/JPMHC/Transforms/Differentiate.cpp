// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Replaces `jpmhc.vjp` by arithmetic. The callee of a request is inlined and
// followed by its reverse sweep, so that everything of a step is in one
// function, where it can fuse. Functions called below stay functions: each is
// differentiated once a signature and split into a forward and a backward one.
#include "MinimumCut.h"
#include "ParallelLoops.h"
#include "ReverseSweep.h"
#include "jpmhc/Dialect/JPMHC/Transforms/Passes.h"
#include "jpmhc/Support/Buffers.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/MapVector.h"
#include <map>

namespace jpmhc {
#define GEN_PASS_DEF_DIFFERENTIATE
#include "jpmhc/Dialect/JPMHC/Transforms/Passes.h.inc"
} // namespace jpmhc

using namespace mlir;
using namespace jpmhc;

namespace {

/// A value that a backward function takes, as the caller knows it.
struct Source {
  enum Kind { argument, result } kind;
  unsigned position; ///< of the forward function's arguments or results
};

/// Where the gradient of an argument is found: nowhere (it is zero), among the
/// results of the backward function, or among its cotangents, which may pass
/// unchanged.
struct Gradient {
  enum Kind { none, result, cotangent } kind = none;
  unsigned position = 0;
};

/// The two halves of a differentiated function.
struct Derivative {
  /// Results of the original, then residuals; the original itself without any.
  func::FuncOp forward;
  unsigned numResults;   ///< of the original
  func::FuncOp backward; ///< sources, then cotangents -> gradients
  SmallVector<Source> sources;
  SmallVector<Gradient> gradients; ///< one for each argument of the original
};

constexpr StringLiteral kDifferentiated = "a differentiated function";

/// What a function is differentiated for.
struct Signature {
  std::string callee;
  std::vector<bool> active; ///< arguments
  std::vector<bool> seeded; ///< results with a cotangent

  bool operator<(const Signature &o) const {
    return std::tie(callee, active, seeded) <
           std::tie(o.callee, o.active, o.seeded);
  }
};

// ---- what is computed again instead of kept ----

bool isParallelGeneric(Operation *op) {
  auto generic = dyn_cast<linalg::GenericOp>(op);
  return generic && generic.getNumLoops() == generic.getNumParallelLoops();
}

/// One pass over memory at most, and usually fused into its user.
bool isCheap(Operation *op) {
  if (op->getNumResults() != 1 || !isMemoryEffectFree(op))
    return false;
  return OpTrait::hasElementwiseMappableTraits(op) || isParallelGeneric(op) ||
         isa<arith::ConstantOp, linalg::BroadcastOp, linalg::FillOp,
             linalg::TransposeOp, tensor::CastOp, tensor::CollapseShapeOp,
             tensor::DimOp, tensor::EmptyOp, tensor::ExpandShapeOp,
             tensor::ExtractOp, tensor::ExtractSliceOp, tensor::FromElementsOp,
             tensor::SplatOp>(op);
}

/// What a dynamic size counts as where bytes are weighed.
constexpr int64_t kDynamicSize = 1024;

/// Bytes of a value, to be weighed against others.
int64_t weightOf(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor)
    return sizeof(double);
  int64_t bytes = bytesOf(tensor.getElementType());
  for (int64_t size : tensor.getShape())
    bytes *= ShapedType::isDynamic(size) ? kDynamicSize : size;
  return bytes;
}

/// Chooses the values that a backward function takes, so that it can compute
/// `needed` (values of `block` before `backward`): a minimum cut. `isFree`
/// values (arguments and results) exist anyway.
llvm::SetVector<Value> chooseKept(ArrayRef<Value> needed,
                                  llvm::function_ref<bool(Value)> isFree) {
  constexpr int64_t endless = int64_t(1) << 60;
  MinimumCut cut;
  unsigned source = cut.addNode(), sink = cut.addNode();
  llvm::MapVector<Value, unsigned> inner; // the node before the value's edge
  SmallVector<Value> queue;
  auto visit = [&](Value v) {
    auto [it, isNew] = inner.try_emplace(v, 0);
    if (!isNew)
      return it->second;
    unsigned in = it->second = cut.addNode();
    unsigned out = cut.addNode(); // in + 1
    cut.addEdge(in, out, isFree(v) ? 1 : weightOf(v.getType()) + 1);
    queue.push_back(v);
    return in;
  };
  for (Value v : needed)
    cut.addEdge(visit(v) + 1, sink, endless);
  while (!queue.empty()) {
    Value v = queue.pop_back_val();
    Operation *op = v.getDefiningOp();
    if (!op || !isCheap(op)) {
      cut.addEdge(source, inner[v], endless);
      continue;
    }
    for (Value used : getUsedValues(op))
      if (used.getParentBlock() == op->getBlock())
        cut.addEdge(visit(used) + 1, inner[v], endless);
  }
  llvm::BitVector reachable = cut.solve(source, sink);
  llvm::SetVector<Value> kept;
  for (auto [value, in] : inner)
    if (reachable[in] && !reachable[in + 1])
      kept.insert(value);
  return kept;
}

/// A copy of a function that takes cotangents as its last arguments and returns
/// gradients as its last results; the ops that are not of the reverse sweep are
/// `forward`.
struct Joint {
  Joint(func::FuncOp joint, func::FuncOp original,
        const llvm::DenseSet<Operation *> &forward)
      : original(original), forward(forward),
        terminator(joint.getBody().front().getTerminator()) {
    unsigned numArguments = original.getNumArguments(),
             numResults = original.getFunctionType().getNumResults();
    arguments = body().getArguments().take_front(numArguments);
    seeds = body().getArguments().drop_front(numArguments);
    results = terminator->getOperands().take_front(numResults);
    gradients = terminator->getOperands().drop_front(numResults);
  }

  Block &body() const { return *terminator->getBlock(); }

  bool isForward(Value v) const {
    if (Operation *op = v.getDefiningOp())
      return op->getBlock() == &body() && forward.contains(op);
    return llvm::is_contained(arguments, v);
  }

  /// What the reverse sweep and the gradients use of the forward part.
  llvm::SetVector<Value> findNeeded() const {
    llvm::SetVector<Value> needed;
    auto use = [&](ValueRange values) {
      for (Value v : values)
        if (isForward(v))
          needed.insert(v);
    };
    for (Operation &op : body().without_terminator())
      if (!forward.contains(&op))
        use(getUsedValues(&op));
    use(gradients);
    return needed;
  }

  /// Returns what `values` have become.
  void returnMapped(OpBuilder &builder, const IRMapping &mapping,
                    ValueRange values) const {
    func::ReturnOp::create(builder, terminator->getLoc(),
                           llvm::map_to_vector(values, [&](Value v) {
                             return mapping.lookup(v);
                           }));
  }

  func::FuncOp original;
  const llvm::DenseSet<Operation *> &forward;
  Operation *terminator;
  ValueRange arguments, seeds;   ///< of the body
  ValueRange results, gradients; ///< operands of the terminator
};

// ---- the pass ----

class Differentiator {
public:
  explicit Differentiator(ModuleOp module) : module(module), symbols(module) {}

  /// Replaces every request of the module.
  LogicalResult run() {
    for (auto function : llvm::to_vector(module.getOps<func::FuncOp>()))
      if (failed(expandRequests(function)))
        return failure();
    return success();
  }

  /// The differentiated functions, in the order they were made.
  ArrayRef<Derivative *> getDerivatives() const { return order; }

private:
  LogicalResult expandRequests(func::FuncOp function);
  LogicalResult expand(VjpOp request);
  FailureOr<Derivative *> differentiate(func::CallOp call,
                                        const llvm::BitVector &active,
                                        ValueRange cotangents);
  LogicalResult buildJoint(func::FuncOp joint, const Signature &signature,
                           llvm::DenseSet<Operation *> &forward,
                           SmallVector<Gradient> &gradients);
  void split(const Joint &joint, Derivative &derivative);
  func::FuncOp buildForward(const Joint &joint, ArrayRef<Value> returned);
  func::FuncOp buildBackward(const Joint &joint,
                             const llvm::SetVector<Value> &kept);
  LogicalResult applyCallRule(func::CallOp call, OpBuilder &builder,
                              ValueRange cotangents,
                              const llvm::BitVector &needed,
                              MutableArrayRef<Value> gradients);
  func::FuncOp declare(func::FuncOp original, StringRef suffix,
                       FunctionType type);

  ModuleOp module;
  SymbolTable symbols;
  llvm::DenseSet<Operation *> expanded, inProgress;
  std::map<Signature, Derivative> derivatives;
  SmallVector<Derivative *> order;
};

} // namespace

static void eraseStop(StopGradientOp op) {
  op.getY().replaceAllUsesWith(op.getX());
  op.erase();
}

/// Requests inside a function come first, so that derivatives can themselves be
/// differentiated.
LogicalResult Differentiator::expandRequests(func::FuncOp function) {
  if (!expanded.insert(function).second)
    return success();
  inProgress.insert(function);
  SmallVector<VjpOp> requests;
  function.walk([&](VjpOp request) { requests.push_back(request); });
  for (VjpOp request : requests)
    if (failed(expand(request)))
      return failure();
  for (Block &block : function.getBody())
    eraseDeadOps(block);
  inProgress.erase(function);
  return success();
}

/// Inlines the callee before the request, and its reverse sweep after it.
LogicalResult Differentiator::expand(VjpOp request) {
  auto callee = symbols.lookup<func::FuncOp>(request.getCallee());
  if (inProgress.contains(callee))
    return request.emitError("expected a function that does not differentiate "
                             "itself, got '")
           << request.getCallee() << "'";
  if (failed(expandRequests(callee)) ||
      failed(requireSingleBlock(callee, kDifferentiated)))
    return failure();

  OpBuilder builder(request);
  // An input may be passed twice; what is differentiated by is a value of its
  // own meanwhile.
  SmallVector<Value> inputs(request.getInputs()), wrt;
  for (int64_t i : request.getWrt())
    wrt.push_back(inputs[i] = StopGradientOp::create(builder, request.getLoc(),
                                                     inputs[i]));
  IRMapping mapping;
  mapping.map(callee.getArguments(), inputs);
  SmallVector<Operation *> forward;
  Block &body = callee.getBody().front();
  for (Operation &op : body.without_terminator())
    forward.push_back(builder.clone(op, mapping));
  // The rule of a call replaces results, so they are held by their uses.
  SmallVector<Value> results =
      llvm::map_to_vector(body.getTerminator()->getOperands(),
                          [&](Value v) { return mapping.lookupOrDefault(v); });
  for (auto [output, result] : llvm::zip(request.getOutputs(), results))
    output.replaceAllUsesWith(result);

  ReverseSweep sweep(forward, wrt);
  for (auto [result, cotangent] : llvm::zip(results, request.getCotangents()))
    sweep.add(result, cotangent);
  if (failed(sweep.run(builder, [&](auto &&...arguments) {
        return applyCallRule(std::forward<decltype(arguments)>(arguments)...);
      })))
    return failure();
  ValueRange gradients = request.getOutputs().drop_front(results.size());
  for (auto [output, value] : llvm::zip(gradients, wrt)) {
    Value gradient = sweep.getCotangent(builder, value);
    output.replaceAllUsesWith(
        gradient ? gradient : zeroLike(builder, request.getLoc(), value));
  }
  request.erase();
  for (Value value : wrt)
    eraseStop(value.getDefiningOp<StopGradientOp>());
  return success();
}

/// Replaces a call by one of the forward function, and calls the backward one.
LogicalResult Differentiator::applyCallRule(func::CallOp call,
                                            OpBuilder &builder,
                                            ValueRange cotangents,
                                            const llvm::BitVector &needed,
                                            MutableArrayRef<Value> gradients) {
  FailureOr<Derivative *> derivative = differentiate(call, needed, cotangents);
  if (failed(derivative))
    return failure();
  OpBuilder before(call);
  auto forward = func::CallOp::create(
      before, call.getLoc(), (*derivative)->forward, call.getOperands());
  for (auto [old, result] : llvm::zip(call.getResults(), forward.getResults()))
    old.replaceAllUsesWith(result);
  SmallVector<Value> operands;
  for (Source source : (*derivative)->sources)
    operands.push_back(source.kind == Source::argument
                           ? call.getOperand(source.position)
                           : forward.getResult(source.position));
  SmallVector<Value> seeds;
  llvm::copy_if(cotangents, std::back_inserter(seeds),
                [](Value v) { return bool(v); });
  llvm::append_range(operands, seeds);
  auto backward = func::CallOp::create(builder, call.getLoc(),
                                       (*derivative)->backward, operands);
  for (auto [i, gradient] : llvm::enumerate((*derivative)->gradients)) {
    if (gradient.kind == Gradient::result)
      gradients[i] = backward.getResult(gradient.position);
    else if (gradient.kind == Gradient::cotangent)
      gradients[i] = seeds[gradient.position];
  }
  return success();
}

func::FuncOp Differentiator::declare(func::FuncOp original, StringRef suffix,
                                     FunctionType type) {
  auto function = func::FuncOp::create(
      original.getLoc(), (original.getSymName() + suffix).str(), type);
  function.setPrivate();
  symbols.insert(function, std::next(original->getIterator()));
  return function;
}

FailureOr<Derivative *>
Differentiator::differentiate(func::CallOp call, const llvm::BitVector &active,
                              ValueRange cotangents) {
  Signature signature;
  signature.callee = call.getCallee().str();
  for (unsigned i = 0; i < active.size(); ++i)
    signature.active.push_back(active[i]);
  for (Value cotangent : cotangents)
    signature.seeded.push_back(bool(cotangent));
  auto [it, isNew] = derivatives.try_emplace(signature);
  Derivative &derivative = it->second;
  if (!isNew) {
    if (!derivative.backward)
      return call.emitError("expected a function without recursion, got '")
             << call.getCallee() << "'";
    return &derivative;
  }

  auto original = symbols.lookup<func::FuncOp>(call.getCallee());
  if (!original || original.isExternal())
    return call.emitError("expected a function with a body, got '")
           << call.getCallee() << "'";
  if (inProgress.contains(original))
    return call.emitError("expected a function that does not differentiate "
                          "itself, got '")
           << call.getCallee() << "'";
  if (failed(expandRequests(original)) ||
      failed(requireSingleBlock(original, kDifferentiated)))
    return failure();
  func::FuncOp joint = original.clone();
  llvm::DenseSet<Operation *> forward;
  LogicalResult built =
      buildJoint(joint, signature, forward, derivative.gradients);
  if (succeeded(built)) {
    split(Joint(joint, original, forward), derivative);
    order.push_back(&derivative);
  }
  joint.erase();
  if (failed(built))
    return failure();
  return &derivative;
}

/// Makes `joint`, a copy of a function, take cotangents as its last arguments
/// and return gradients as its last results. `forward` are the ops that are not
/// of the reverse sweep.
LogicalResult Differentiator::buildJoint(func::FuncOp joint,
                                         const Signature &signature,
                                         llvm::DenseSet<Operation *> &forward,
                                         SmallVector<Gradient> &gradients) {
  Block &body = joint.getBody().front();
  Operation *terminator = body.getTerminator();
  SmallVector<Value> wrt;
  for (auto [argument, active] :
       llvm::zip(body.getArguments(), signature.active))
    if (active)
      wrt.push_back(argument);
  SmallVector<Operation *> ops;
  for (Operation &op : body.without_terminator())
    ops.push_back(&op);
  ReverseSweep sweep(ops, wrt);
  for (auto [i, seeded] : llvm::enumerate(signature.seeded)) {
    if (!seeded)
      continue;
    Value result = terminator->getOperand(i);
    sweep.add(result, body.addArgument(result.getType(), joint.getLoc()));
  }
  OpBuilder builder(terminator);
  if (failed(sweep.run(builder, [&](auto &&...arguments) {
        return applyCallRule(std::forward<decltype(arguments)>(arguments)...);
      })))
    return failure();

  // What a gradient is: a cotangent as it came, or a result, each value once.
  unsigned numArguments = signature.active.size(),
           numResults = terminator->getNumOperands();
  SmallVector<Value> results(terminator->getOperands());
  for (unsigned i = 0; i < numArguments; ++i) {
    Value value = signature.active[i]
                      ? sweep.getCotangent(builder, body.getArgument(i))
                      : Value();
    auto argument = dyn_cast_or_null<BlockArgument>(value);
    if (!value) {
      gradients.emplace_back();
    } else if (argument && argument.getArgNumber() >= numArguments) {
      gradients.push_back(
          {Gradient::cotangent, argument.getArgNumber() - numArguments});
    } else {
      auto *known =
          std::find(results.begin() + numResults, results.end(), value);
      gradients.push_back(
          {Gradient::result, unsigned(known - results.begin()) - numResults});
      if (known == results.end())
        results.push_back(value);
    }
  }
  terminator->setOperands(results);
  // The forward part ends with the last original op; a call that was replaced
  // still stands behind the call that replaced it.
  Operation *last = ops.empty() ? nullptr : ops.back();
  for (Operation *op = last; op; op = op->getPrevNode())
    forward.insert(op);
  eraseDeadOps(body);
  return success();
}

/// Makes the two functions of `derivative` from the joint one.
void Differentiator::split(const Joint &joint, Derivative &derivative) {
  auto positionIn = [](ValueRange range, Value v) -> unsigned {
    return std::distance(range.begin(), llvm::find(range, v));
  };
  llvm::SetVector<Value> needed = joint.findNeeded();
  llvm::SetVector<Value> kept = chooseKept(needed.getArrayRef(), [&](Value v) {
    return isa<BlockArgument>(v) || llvm::is_contained(joint.results, v);
  });
  derivative.numResults = joint.results.size();
  SmallVector<Value> returned(joint.results); // residuals come behind them
  for (Value v : kept) {
    unsigned i = positionIn(joint.arguments, v);
    if (i < joint.arguments.size()) {
      derivative.sources.push_back({Source::argument, i});
      continue;
    }
    i = positionIn(returned, v);
    if (i == returned.size())
      returned.push_back(v);
    derivative.sources.push_back({Source::result, i});
  }
  derivative.forward = returned.size() == joint.results.size()
                           ? joint.original
                           : buildForward(joint, returned);
  derivative.backward = buildBackward(joint, kept);
}

/// The original function that returns `returned`.
func::FuncOp Differentiator::buildForward(const Joint &joint,
                                          ArrayRef<Value> returned) {
  func::FuncOp original = joint.original;
  func::FuncOp function = declare(
      original, "_forward",
      FunctionType::get(module.getContext(), original.getArgumentTypes(),
                        ValueRange(returned).getTypes()));
  Block *entry = function.addEntryBlock();
  IRMapping mapping;
  mapping.map(joint.arguments, ValueRange(entry->getArguments()));
  OpBuilder builder = OpBuilder::atBlockEnd(entry);
  for (Operation &op : joint.body().without_terminator())
    if (joint.forward.contains(&op))
      builder.clone(op, mapping);
  joint.returnMapped(builder, mapping, returned);
  eraseDeadOps(*entry);
  return function;
}

/// What was kept and cotangents to gradients.
func::FuncOp Differentiator::buildBackward(const Joint &joint,
                                           const llvm::SetVector<Value> &kept) {
  SmallVector<Type> types(ValueRange(kept.getArrayRef()).getTypes());
  llvm::append_range(types, joint.seeds.getTypes());
  func::FuncOp function =
      declare(joint.original, "_backward",
              FunctionType::get(module.getContext(), types,
                                joint.gradients.getTypes()));
  Block *entry = function.addEntryBlock();
  ValueRange arguments = entry->getArguments();
  IRMapping mapping;
  mapping.map(kept, arguments.take_front(kept.size()));
  mapping.map(joint.seeds, arguments.drop_front(kept.size()));
  OpBuilder builder = OpBuilder::atBlockEnd(entry);
  // Ops whose operands are there are computed again; the dead ones go.
  for (Operation &op : joint.body().without_terminator()) {
    bool available = llvm::all_of(getUsedValues(&op), [&](Value v) {
      return v.getParentBlock() != &joint.body() || mapping.contains(v);
    });
    bool isKept = op.getNumResults() == 1 && kept.contains(op.getResult(0));
    if (!joint.forward.contains(&op) || (available && !isKept && isCheap(&op)))
      builder.clone(op, mapping);
  }
  joint.returnMapped(builder, mapping, joint.gradients);
  eraseDeadOps(*entry);
  return function;
}

/// Private functions that nothing refers to, and then those only they called.
static void eraseUnusedFunctions(ModuleOp module) {
  bool changed = true;
  while (changed) {
    changed = false;
    llvm::DenseSet<StringAttr> used;
    if (auto uses = SymbolTable::getSymbolUses(&module.getBodyRegion()))
      for (SymbolTable::SymbolUse use : *uses)
        used.insert(use.getSymbolRef().getRootReference());
    for (auto function :
         llvm::make_early_inc_range(module.getOps<func::FuncOp>()))
      if (function.isPrivate() && !function.isExternal() &&
          !used.contains(function.getSymNameAttr())) {
        function.erase();
        changed = true;
      }
  }
}

namespace {
struct DifferentiatePass : jpmhc::impl::DifferentiateBase<DifferentiatePass> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    Differentiator differentiator(module);
    if (failed(differentiator.run()))
      return signalPassFailure();
    for (Derivative *derivative : differentiator.getDerivatives()) {
      ++functions;
      for (Type residual : derivative->forward.getResultTypes().drop_front(
               derivative->numResults))
        residualBytes += weightOf(residual);
    }
    module.walk(eraseStop);
    eraseUnusedFunctions(module);
  }
};
} // namespace
