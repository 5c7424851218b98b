// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ParallelLoops.h"
#include "jpmhc/Dialect/JPMHC/IR/Names.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace jpmhc;

Value jpmhc::inlineReduction(OpBuilder &builder, Region &reduction,
                             Value carried, Value term) {
  IRMapping mapping;
  mapping.map(reduction.getArgument(0), carried);
  mapping.map(reduction.getArgument(1), term);
  for (Operation &op : reduction.front().without_terminator())
    builder.clone(op, mapping);
  return mapping.lookupOrDefault(
      reduction.front().getTerminator()->getOperand(0));
}

ValueRange jpmhc::lowerParallelToFor(scf::ParallelOp loop) {
  OpBuilder builder(loop);
  auto sequential = scf::ForOp::create(
      builder, loop.getLoc(), loop.getLowerBound()[0], loop.getUpperBound()[0],
      loop.getStep()[0], loop.getInitVals());
  Block *body = sequential.getBody();
  if (!body->empty()) // the builder adds a yield when nothing is carried
    body->back().erase();
  auto reduce = cast<scf::ReduceOp>(loop.getBody()->getTerminator());
  loop.getInductionVars()[0].replaceAllUsesWith(sequential.getInductionVar());
  body->getOperations().splice(body->end(), loop.getBody()->getOperations(),
                               loop.getBody()->begin(), reduce->getIterator());
  builder.setInsertionPointToEnd(body);
  SmallVector<Value> carried;
  for (auto [region, term, in] :
       llvm::zip(reduce.getReductions(), reduce.getOperands(),
                 sequential.getRegionIterArgs()))
    carried.push_back(inlineReduction(builder, region, in, term));
  scf::YieldOp::create(builder, loop.getLoc(), carried);
  loop.replaceAllUsesWith(sequential.getResults());
  loop.erase();
  return sequential.getResults();
}

void jpmhc::nameKernels(Operation *before, Operation *end, StringRef name) {
  Operation *op = before ? before->getNextNode() : &end->getBlock()->front();
  for (; op != end; op = op->getNextNode())
    if (isa<scf::ParallelOp>(op))
      op->setAttr(kKernelNameAttrName, StringAttr::get(op->getContext(), name));
}

LogicalResult jpmhc::requireSingleBlock(func::FuncOp function, StringRef what) {
  if (function.getBody().hasOneBlock())
    return success();
  return function.emitError("expected ")
         << what << " of one block, got "
         << function.getBody().getBlocks().size();
}
