// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "jpmhc/Dialect/JPMHC/IR/JPMHCOps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace jpmhc;

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

LogicalResult GemmOp::verify() {
  auto a = cast<MemRefType>(getA().getType()),
       b = cast<MemRefType>(getB().getType()),
       c = cast<MemRefType>(getC().getType());
  if (a.getRank() != c.getRank() || b.getRank() != c.getRank() ||
      (c.getRank() != 2 && c.getRank() != 3))
    return emitOpError(
               "expected three operands of rank 2 or of rank 3, got ranks ")
           << a.getRank() << ", " << b.getRank() << " and " << c.getRank();
  auto dim = [](MemRefType t, bool transposed, unsigned i) {
    return t.getShape().take_back(2)[transposed ? 1 - i : i];
  };
  int64_t m = dim(a, getTransA(), 0), k = dim(a, getTransA(), 1),
          k2 = dim(b, getTransB(), 0), n = dim(b, getTransB(), 1);
  if (k != k2)
    return emitOpError("expected equal inner sizes, got ")
           << k << " and " << k2;
  if (m != dim(c, false, 0) || n != dim(c, false, 1))
    return emitOpError("expected a result of ")
           << m << "x" << n << ", got " << dim(c, false, 0) << "x"
           << dim(c, false, 1);
  return success();
}
