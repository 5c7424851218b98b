// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "jpmhc/Dialect/JPMHC/IR/JPMHCOps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace jpmhc;

LogicalResult LaunchOp::verify() {
  if (int64_t grain = getGrain(); grain < 1)
    return emitOpError("expected a grain of at least 1, got ") << grain;
  auto written = (*this)->getAttrOfType<DenseBoolArrayAttr>(kWrittenAttrName);
  if (written && written.size() != static_cast<int64_t>(getArgs().size()))
    return emitOpError("expected ")
           << kWrittenAttrName << " for " << getArgs().size()
           << " arguments, got " << written.size();
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

/// Products are of floating-point numbers, the last dimension contiguous.
static LogicalResult verifyFactor(GemmOp op, StringRef name, MemRefType type) {
  if (Type element = type.getElementType();
      !isa<Float32Type, BFloat16Type, Float16Type, Float64Type>(element))
    return op.emitOpError("expected ")
           << name << " of f32, bf16, f16 or f64, got " << element;
  SmallVector<int64_t> strides;
  int64_t offset;
  if (failed(type.getStridesAndOffset(strides, offset)) || strides.back() != 1)
    return op.emitOpError("expected ")
           << name << " with a contiguous last dimension, got " << type;
  return success();
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
  if (failed(verifyFactor(*this, "A", a)) ||
      failed(verifyFactor(*this, "B", b)) ||
      failed(verifyFactor(*this, "C", c)))
    return failure();
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
