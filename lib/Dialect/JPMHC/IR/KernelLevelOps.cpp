// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "jpmhc/Dialect/JPMHC/IR/JPMHCOps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace jpmhc;

LogicalResult LaunchOp::verify() {
  if (int64_t grain = getGrain(); grain < 1)
    return emitOpError("expected a grain of at least 1, got ") << grain;
  return success();
}

LogicalResult LaunchOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto kernel =
      symbols.lookupNearestSymbolFrom<func::FuncOp>(*this, getKernelAttr());
  if (!kernel)
    return emitOpError("expected the name of a kernel, got ")
           << getKernelAttr();
  size_t expected = kernel.getNumArguments(), got = getArgs().size() + 2;
  if (expected != got)
    return emitOpError("expected ")
           << expected << " arguments including the bounds, got " << got;
  for (auto [argument, type] :
       llvm::zip(getArgs(), kernel.getArgumentTypes().drop_front(2)))
    if (argument.getType() != type)
      return emitOpError("expected an argument of type ")
             << type << ", got " << argument.getType();
  return success();
}

static bool agree(int64_t a, int64_t b) {
  return a == b || ShapedType::isDynamic(a) || ShapedType::isDynamic(b);
}

LogicalResult GemmOp::verify() {
  auto a = cast<MemRefType>(getA().getType()),
       b = cast<MemRefType>(getB().getType()),
       c = cast<MemRefType>(getC().getType());
  int64_t rank = c.getRank();
  if (a.getRank() != rank || b.getRank() != rank || (rank != 2 && rank != 3))
    return emitOpError(
               "expected three operands of rank 2 or of rank 3, got ranks ")
           << a.getRank() << ", " << b.getRank() << " and " << rank;
  if (a.getElementType() != b.getElementType())
    return emitOpError("expected factors of one element type, got ")
           << a.getElementType() << " and " << b.getElementType();
  if (rank == 3 && (!agree(a.getDimSize(0), c.getDimSize(0)) ||
                    !agree(b.getDimSize(0), c.getDimSize(0))))
    return emitOpError("expected equal batches, got ")
           << a.getDimSize(0) << ", " << b.getDimSize(0) << " and "
           << c.getDimSize(0);
  auto dim = [](MemRefType t, bool transposed, unsigned i) {
    return t.getShape().take_back(2)[transposed ? 1 - i : i];
  };
  int64_t m = dim(a, getTransA(), 0), k = dim(a, getTransA(), 1),
          k2 = dim(b, getTransB(), 0), n = dim(b, getTransB(), 1);
  if (!agree(k, k2))
    return emitOpError("expected equal inner sizes, got ")
           << k << " and " << k2;
  if (!agree(m, dim(c, false, 0)) || !agree(n, dim(c, false, 1)))
    return emitOpError("expected a result of ")
           << m << "x" << n << ", got " << dim(c, false, 0) << "x"
           << dim(c, false, 1);
  return success();
}
