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

// ---- discardable attributes ----

template <typename... Kinds> static bool isOneOf(Attribute value) {
  return isa<Kinds...>(value);
}

namespace {
/// What an attribute of Names.h holds.
struct KnownAttribute {
  StringRef name;
  bool (*accepts)(Attribute);
  StringRef expected;
};
} // namespace

static LogicalResult verifyKnown(Operation *op, NamedAttribute attribute,
                                 ArrayRef<KnownAttribute> known) {
  const auto *found = llvm::find_if(known, [&](const KnownAttribute &k) {
    return k.name == attribute.getName();
  });
  if (found == known.end())
    return op->emitError(
               "expected a known attribute of the jpmhc dialect, got ")
           << attribute.getName();
  if (!found->accepts(attribute.getValue()))
    return op->emitError("expected ")
           << found->name << " to be " << found->expected << ", got "
           << attribute.getValue();
  return success();
}

LogicalResult JPMHCDialect::verifyOperationAttribute(Operation *op,
                                                     NamedAttribute attribute) {
  static constexpr KnownAttribute kKnown[] = {
      {kTargetAttrName, isOneOf<TargetAttr>, "a #jpmhc.target"},
      {kAliasesAttrName, isOneOf<DenseI64ArrayAttr>, "an array of i64"},
      {kEntryAttrName, isOneOf<UnitAttr>, "a unit attribute"},
      {kArenaBytesAttrName, isOneOf<IntegerAttr>, "an integer"},
      {kKernelNameAttrName, isOneOf<StringAttr, UnitAttr>,
       "a string or a unit attribute"},
      {kWrittenAttrName, isOneOf<DenseBoolArrayAttr>, "an array of i1"},
      {kTokensAttrName, isOneOf<UnitAttr>, "a unit attribute"},
      {kPreparesAttrName, isOneOf<UnitAttr>, "a unit attribute"},
      {kChunksAttrName, isOneOf<IntegerAttr>, "an integer"},
      {kBlockAttrName, isOneOf<IntegerAttr>, "an integer"},
      {kRowsPerBlockAttrName, isOneOf<IntegerAttr>, "an integer"}};
  return verifyKnown(op, attribute, kKnown);
}

LogicalResult JPMHCDialect::verifyRegionArgAttribute(Operation *op, unsigned,
                                                     unsigned,
                                                     NamedAttribute attribute) {
  static constexpr KnownAttribute kKnown[] = {
      {kInPlaceAttrName, isOneOf<UnitAttr>, "a unit attribute"}};
  return verifyKnown(op, attribute, kKnown);
}

// ---- manifolds and targets ----

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
