// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "jpmhc/Manifolds/Manifold.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace jpmhc;

namespace jpmhc {
#define JPMHC_MANIFOLD(file) std::unique_ptr<Manifold> create##file();
#include "Manifolds.def"
#undef JPMHC_MANIFOLD
} // namespace jpmhc

Manifold::~Manifold() = default;

LogicalResult Manifold::verify(EmitError, const ManifoldParameters &) const {
  return success();
}

LogicalResult Manifold::verifyStreams(EmitError, int64_t,
                                      const ManifoldParameters &) const {
  return success();
}

// ---- parameters

std::optional<int64_t> jpmhc::integerOf(Attribute attribute) {
  auto integer = dyn_cast_or_null<IntegerAttr>(attribute);
  if (!integer || integer.getType().isInteger(1))
    return std::nullopt;
  APInt value = integer.getValue();
  if (integer.getType().isUnsignedInteger())
    value = value.zext(value.getBitWidth() + 1);
  return value.trySExtValue();
}

/// A number may be written without a point.
static std::optional<double> numberOf(Attribute attribute) {
  if (auto number = dyn_cast_or_null<FloatAttr>(attribute))
    return number.getValueAsDouble();
  if (std::optional<int64_t> integer = integerOf(attribute))
    return static_cast<double>(*integer);
  return std::nullopt;
}

ManifoldParameter
ManifoldParameter::integer(std::string name, std::string doc, int64_t low,
                           int64_t high, std::optional<int64_t> defaultValue) {
  ManifoldParameter parameter;
  parameter.name = std::move(name);
  parameter.doc = std::move(doc);
  parameter.expected =
      "an integer from " + std::to_string(low) + " to " + std::to_string(high);
  parameter.accepts = [low, high](Attribute attribute) {
    std::optional<int64_t> value = integerOf(attribute);
    return value && low <= *value && *value <= high;
  };
  if (defaultValue)
    parameter.defaultValue = [value = *defaultValue](MLIRContext *context) {
      return Builder(context).getI64IntegerAttr(value);
    };
  return parameter;
}

ManifoldParameter ManifoldParameter::positive(std::string name, std::string doc,
                                              double defaultValue) {
  ManifoldParameter parameter;
  parameter.name = std::move(name);
  parameter.doc = std::move(doc);
  parameter.expected = "a finite number > 0";
  parameter.accepts = [](Attribute attribute) {
    std::optional<double> value = numberOf(attribute);
    return value && *value > 0 && std::isfinite(*value);
  };
  parameter.defaultValue = [defaultValue](MLIRContext *context) {
    return Builder(context).getF64FloatAttr(defaultValue);
  };
  return parameter;
}

ManifoldParameter ManifoldParameter::flag(std::string name, std::string doc,
                                          bool defaultValue) {
  ManifoldParameter parameter;
  parameter.name = std::move(name);
  parameter.doc = std::move(doc);
  parameter.expected = "true or false";
  parameter.accepts = [](Attribute attribute) {
    return isa<BoolAttr>(attribute);
  };
  parameter.defaultValue = [defaultValue](MLIRContext *context) {
    return Builder(context).getBoolAttr(defaultValue);
  };
  return parameter;
}

ManifoldParameter ManifoldParameter::choice(std::string name, std::string doc,
                                            std::vector<std::string> choices) {
  ManifoldParameter parameter;
  parameter.name = std::move(name);
  parameter.doc = std::move(doc);
  parameter.expected = "\"" + llvm::join(choices, "\" or \"") + "\"";
  parameter.defaultValue = [first = choices.front()](MLIRContext *context) {
    return Builder(context).getStringAttr(first);
  };
  parameter.accepts = [choices = std::move(choices)](Attribute attribute) {
    auto text = dyn_cast<StringAttr>(attribute);
    return text && llvm::is_contained(choices, text.getValue());
  };
  return parameter;
}

ManifoldParameters::ManifoldParameters(const Manifold &manifold,
                                       MLIRContext *context,
                                       DictionaryAttr given) {
  NamedAttrList all;
  for (const ManifoldParameter &parameter : manifold.parameters())
    if (parameter.defaultValue)
      all.set(parameter.name, parameter.defaultValue(context));
  if (given)
    for (NamedAttribute attribute : given)
      all.set(attribute.getName(), attribute.getValue());
  values = all.getDictionary(context);
}

int64_t ManifoldParameters::integer(StringRef name) const {
  return *integerOf(values.get(name));
}

double ManifoldParameters::number(StringRef name) const {
  return *numberOf(values.get(name));
}

bool ManifoldParameters::flag(StringRef name) const {
  return cast<BoolAttr>(values.get(name)).getValue();
}

StringRef ManifoldParameters::choice(StringRef name) const {
  return cast<StringAttr>(values.get(name)).getValue();
}

// ---- registry

static std::vector<std::unique_ptr<Manifold>> &manifolds() {
  static std::vector<std::unique_ptr<Manifold>> all = [] {
    std::vector<std::unique_ptr<Manifold>> list;
#define JPMHC_MANIFOLD(file) list.push_back(create##file());
#include "Manifolds.def"
#undef JPMHC_MANIFOLD
    return list;
  }();
  return all;
}

const Manifold *ManifoldRegistry::lookup(StringRef name) {
  for (const std::unique_ptr<Manifold> &manifold : manifolds())
    if (manifold->name() == name)
      return manifold.get();
  return nullptr;
}

std::vector<std::string> ManifoldRegistry::names() {
  std::vector<std::string> all;
  for (const std::unique_ptr<Manifold> &manifold : manifolds())
    all.push_back(manifold->name().str());
  llvm::sort(all);
  return all;
}

bool ManifoldRegistry::add(std::unique_ptr<Manifold> manifold) {
  if (lookup(manifold->name()))
    return false;
  manifolds().push_back(std::move(manifold));
  return true;
}

/// `; did you mean "x"?` where a known name is close.
static std::string suggestion(StringRef name, ArrayRef<std::string> known) {
  const std::string *nearest = nullptr;
  unsigned best = std::max<unsigned>(2, name.size() / 3) + 1;
  for (const std::string &candidate : known)
    if (unsigned distance = name.edit_distance(candidate); distance < best) {
      best = distance;
      nearest = &candidate;
    }
  return nearest ? "; did you mean \"" + *nearest + "\"?" : "";
}

LogicalResult ManifoldRegistry::verify(EmitError emitError, StringRef name,
                                       DictionaryAttr given) {
  const Manifold *manifold = lookup(name);
  if (!manifold) {
    std::vector<std::string> known = names();
    return emitError() << "expected a manifold (" << llvm::join(known, ", ")
                       << "), got \"" << name << "\""
                       << suggestion(name, known);
  }
  if (!given)
    return success();
  std::vector<ManifoldParameter> parameters = manifold->parameters();
  for (NamedAttribute attribute : given) {
    StringRef key = attribute.getName().getValue();
    auto found = llvm::find_if(
        parameters, [&](const ManifoldParameter &p) { return p.name == key; });
    if (found == parameters.end()) {
      std::vector<std::string> known;
      for (const ManifoldParameter &parameter : parameters)
        known.push_back(parameter.name);
      return emitError() << "expected a parameter of " << name << " ("
                         << (known.empty() ? "it has none"
                                           : llvm::join(known, ", "))
                         << "), got \"" << key << "\""
                         << suggestion(key, known);
    }
    if (!found->accepts(attribute.getValue()))
      return emitError() << "expected " << key << " of " << name << " to be "
                         << found->expected << ", got " << attribute.getValue();
  }
  ManifoldParameters values(*manifold, given.getContext(), given);
  return manifold->verify(emitError, values);
}

LogicalResult
ManifoldRegistry::verifyStreams(EmitError emitError, StringRef name,
                                const ManifoldParameters &parameters,
                                int64_t n) {
  if (n < 1 || n > kMaxStreams)
    return emitError() << "expected from 1 to " << kMaxStreams
                       << " streams, got " << n;
  return lookup(name)->verifyStreams(emitError, n, parameters);
}
