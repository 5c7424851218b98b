// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "jpmhc/Dialect/JPMHC/IR/JPMHCDialect.h"
#include "jpmhc/Dialect/JPMHC/IR/JPMHCOps.h"
#include "jpmhc/Manifolds/Manifold.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace jpmhc;

#include "jpmhc/Dialect/JPMHC/IR/JPMHCDialect.cpp.inc"
#include "jpmhc/Dialect/JPMHC/IR/JPMHCEnums.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "jpmhc/Dialect/JPMHC/IR/JPMHCAttributes.cpp.inc"

#define GET_OP_CLASSES
#include "jpmhc/Dialect/JPMHC/IR/JPMHCOps.cpp.inc"

void JPMHCDialect::registerAttributes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "jpmhc/Dialect/JPMHC/IR/JPMHCAttributes.cpp.inc"
      >();
}

void JPMHCDialect::initialize() {
  registerAttributes();
  addOperations<
#define GET_OP_LIST
#include "jpmhc/Dialect/JPMHC/IR/JPMHCOps.cpp.inc"
      >();
}

LogicalResult ManifoldAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                   StringRef name, DictionaryAttr parameters) {
  return ManifoldRegistry::verify(emitError, name, parameters);
}

const Manifold &ManifoldAttr::getManifold() const {
  return *ManifoldRegistry::lookup(getName());
}

ManifoldParameters ManifoldAttr::getValues() const {
  return ManifoldParameters(getManifold(), getContext(), getParameters());
}

TargetAttr jpmhc::getTarget(Operation *op) {
  for (Operation *parent = op; parent; parent = parent->getParentOp())
    if (auto target = parent->getAttrOfType<TargetAttr>(kTargetAttrName))
      return target;
  return TargetAttr::get(op->getContext(), TargetKind::cpu, "generic", 16);
}
