// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "jpmhc/Frontend/GraphBuilder.h"
#include "jpmhc/Support/Locations.h"

#include "mlir/AsmParser/AsmParser.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using llvm::Error;
using llvm::Expected;

namespace jpmhc {

//===----------------------------------------------------------------------===//
// Diagnostics
//===----------------------------------------------------------------------===//

char DiagnosticError::ID = 0;

void DiagnosticError::log(llvm::raw_ostream &os) const {
  if (location.line != 0)
    os << location.file << ":" << location.line << ":" << location.column
       << ": ";
  os << message;
}

SourceLocation findSourceLocation(Location loc) {
  FileLineColLoc position = findPosition(loc);
  if (!position)
    return {};
  return {position.getFilename().str(), position.getLine(),
          position.getColumn()};
}

DiagnosticCollector::DiagnosticCollector(MLIRContext *context)
    : handler(context, [this](Diagnostic &diagnostic) {
        if (diagnostic.getSeverity() != DiagnosticSeverity::Error)
          return success();
        std::string message = diagnostic.str();
        for (Diagnostic &note : diagnostic.getNotes()) {
          // The note that repeats the op in generic form says nothing that the
          // location does not.
          std::string text = note.str();
          if (!llvm::StringRef(text).starts_with("see current operation"))
            message += "; " + text;
        }
        errors.emplace_back(message,
                            findSourceLocation(diagnostic.getLocation()));
        return success();
      }) {}

Error DiagnosticCollector::takeError(llvm::StringRef fallback,
                                     SourceLocation where) {
  if (errors.empty())
    return llvm::make_error<DiagnosticError>(fallback.str(), std::move(where));
  auto [message, location] = std::move(errors.front());
  errors.clear();
  if (location.line == 0)
    location = std::move(where);
  return llvm::make_error<DiagnosticError>(message, location);
}

static Error makeError(const llvm::Twine &message,
                       const SourceLocation &where) {
  return llvm::make_error<DiagnosticError>(message.str(), where);
}

//===----------------------------------------------------------------------===//
// Scopes
//===----------------------------------------------------------------------===//

/// A function or a region under construction. The insertion point is always the
/// end of the innermost scope's block.
struct GraphBuilder::Scope {
  func::FuncOp function;          // null for a region
  std::unique_ptr<Region> region; // null for a function
  Block *block = nullptr;
};

GraphBuilder::GraphBuilder(const DialectRegistry &registry)
    : context(std::make_unique<MLIRContext>(registry,
                                            MLIRContext::Threading::DISABLED)),
      builder(context.get()) {
  context->loadAllAvailableDialects();
  module = ModuleOp::create(builder.getUnknownLoc());
}

GraphBuilder::~GraphBuilder() {
  // Regions use values of the functions around them: the innermost goes first.
  while (!scopes.empty())
    scopes.pop_back();
  finishedRegions.clear();
}

Location GraphBuilder::getLocation(const SourceLocation &location) {
  if (location.line == 0)
    return builder.getUnknownLoc();
  return FileLineColLoc::get(context.get(), location.file, location.line,
                             location.column);
}

GraphBuilder::Scope *GraphBuilder::getFunctionScope() {
  for (Scope &scope : llvm::reverse(scopes))
    if (scope.function)
      return &scope;
  return nullptr;
}

Error GraphBuilder::requireScope(const SourceLocation &location) {
  if (scopes.empty())
    return makeError("expected a function under construction, got none",
                     location);
  builder.setInsertionPointToEnd(scopes.back().block);
  return Error::success();
}

/// A value may be used in the scope it was made in and in the regions nested in
/// that, within one function.
Error GraphBuilder::checkVisible(ArrayRef<Value> values,
                                 const SourceLocation &location) {
  for (Value value : values) {
    if (!value)
      return makeError("expected a value, got a null one", location);
    bool visible = false;
    for (Scope &scope : llvm::reverse(scopes)) {
      visible = value.getParentBlock() == scope.block;
      if (visible || scope.function)
        break;
    }
    if (!visible)
      return makeError("expected a value of the function being traced, got one "
                       "that belongs to another function or a closed region",
                       location);
  }
  return Error::success();
}

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

/// What a parser said, with the text it said it of: its positions are in that
/// text, but what matters is the user's line.
static Error inText(Error error, llvm::StringRef text,
                    const SourceLocation &where) {
  std::string message;
  llvm::handleAllErrors(std::move(error), [&](const DiagnosticError &e) {
    message = e.getMessage();
  });
  return makeError(message + " in '" + text + "'", where);
}

Expected<Type> GraphBuilder::parseTypeText(llvm::StringRef text,
                                           const SourceLocation &location) {
  auto it = typeCache.find(text);
  if (it != typeCache.end())
    return it->second;
  DiagnosticCollector diagnostics(context.get());
  Type type = parseType(text, context.get());
  if (!type)
    return inText(diagnostics.takeError("expected a type", location), text,
                  location);
  typeCache[text] = type;
  return type;
}

Expected<std::vector<Type>>
GraphBuilder::parseTypeTexts(ArrayRef<std::string> texts,
                             const SourceLocation &location) {
  std::vector<Type> types;
  for (const std::string &text : texts) {
    Expected<Type> type = parseTypeText(text, location);
    if (!type)
      return type.takeError();
    types.push_back(*type);
  }
  return types;
}

Expected<Attribute>
GraphBuilder::parseAttributeText(llvm::StringRef text,
                                 const SourceLocation &location) {
  DiagnosticCollector diagnostics(context.get());
  Attribute attribute = parseAttribute(text, context.get());
  if (!attribute)
    return inText(diagnostics.takeError("expected an attribute", location),
                  text, location);
  return attribute;
}

Expected<NamedAttrList>
GraphBuilder::parseAttributes(OperationName name, const OpRequest &request) {
  NamedAttrList attributes;
  ArrayRef<StringAttr> known = name.getAttributeNames();
  for (const auto &[key, text] : request.attributes) {
    bool isKnown = llvm::any_of(
        known, [&, &key = key](StringAttr a) { return a.getValue() == key; });
    if (!isKnown && !llvm::StringRef(key).contains('.'))
      return makeError(
          "'" + request.name + "' has no attribute '" + key +
              "'; expected one of: " +
              llvm::join(
                  llvm::map_range(
                      known, [](StringAttr a) { return a.getValue().str(); }),
                  ", "),
          request.location);
    Expected<Attribute> attribute = parseAttributeText(text, request.location);
    if (!attribute)
      return attribute.takeError();
    attributes.append(key, *attribute);
  }
  return attributes;
}

//===----------------------------------------------------------------------===//
// Functions and regions
//===----------------------------------------------------------------------===//

Expected<std::vector<Value>>
GraphBuilder::beginFunction(llvm::StringRef name,
                            ArrayRef<std::string> argumentTypes, bool isPrivate,
                            const SourceLocation &location) {
  Expected<std::vector<Type>> types = parseTypeTexts(argumentTypes, location);
  if (!types)
    return types.takeError();
  if (module->lookupSymbol(name))
    return makeError("function '" + name + "' exists already", location);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToEnd(module->getBody());
  auto function =
      func::FuncOp::create(builder, getLocation(location), name,
                           FunctionType::get(context.get(), *types, {}));
  if (isPrivate)
    function.setPrivate();
  Block *block = function.addEntryBlock();
  scopes.push_back({function, nullptr, block});
  return std::vector<Value>(block->args_begin(), block->args_end());
}

Expected<Value> GraphBuilder::addArgument(llvm::StringRef type,
                                          const SourceLocation &location) {
  Scope *scope = getFunctionScope();
  if (!scope)
    return makeError("expected a function under construction, got none",
                     location);
  Expected<Type> parsed = parseTypeText(type, location);
  if (!parsed)
    return parsed.takeError();
  func::FuncOp function = scope->function;
  if (failed(function.insertArgument(function.getNumArguments(), *parsed, {},
                                     getLocation(location))))
    return makeError("could not append an argument", location);
  return function.getArguments().back();
}

Error GraphBuilder::setArgumentAttribute(unsigned index, llvm::StringRef name,
                                         llvm::StringRef attribute) {
  Scope *scope = getFunctionScope();
  if (!scope || index >= scope->function.getNumArguments())
    return makeError("expected an argument number of the function under "
                     "construction, got " +
                         llvm::Twine(index),
                     {});
  Expected<Attribute> parsed = parseAttributeText(attribute, {});
  if (!parsed)
    return parsed.takeError();
  scope->function.setArgAttr(index, name, *parsed);
  return Error::success();
}

Error GraphBuilder::endFunction(ArrayRef<Value> results,
                                const SourceLocation &location) {
  if (Error error = requireScope(location))
    return error;
  func::FuncOp function = scopes.back().function;
  if (!function)
    return makeError("expected the open region to end before its function",
                     location);
  if (Error error = checkVisible(results, location))
    return error;
  func::ReturnOp::create(builder, getLocation(location), results);
  function.setFunctionType(FunctionType::get(
      context.get(), function.getArgumentTypes(),
      llvm::map_to_vector(results, [](Value v) { return v.getType(); })));
  DiagnosticCollector diagnostics(context.get());
  if (failed(mlir::verify(function)))
    return diagnostics.takeError("the function failed to verify", location);
  scopes.pop_back();
  return Error::success();
}

void GraphBuilder::abandonFunction() {
  finishedRegions.clear();
  while (!scopes.empty()) {
    Scope scope = std::move(scopes.back());
    scopes.pop_back();
    if (scope.function) {
      scope.function.erase();
      return;
    }
  }
}

Expected<std::vector<Value>>
GraphBuilder::beginRegion(ArrayRef<std::string> argumentTypes,
                          const SourceLocation &location) {
  if (Error error = requireScope(location))
    return error;
  Expected<std::vector<Type>> types = parseTypeTexts(argumentTypes, location);
  if (!types)
    return types.takeError();
  auto region = std::make_unique<Region>();
  Block *block = &region->emplaceBlock();
  for (Type type : *types)
    block->addArgument(type, getLocation(location));
  scopes.push_back({func::FuncOp(), std::move(region), block});
  return std::vector<Value>(block->args_begin(), block->args_end());
}

Expected<unsigned> GraphBuilder::endRegion(llvm::StringRef terminator,
                                           ArrayRef<Value> results,
                                           const SourceLocation &location) {
  if (Error error = requireScope(location))
    return error;
  if (!scopes.back().region)
    return makeError("expected an open region, got a function", location);
  if (Error error = checkVisible(results, location))
    return error;
  OperationName name(terminator, context.get());
  if (!name.isRegistered())
    return makeError("unknown op '" + terminator + "'", location);
  // A terminator is verified with its parent op.
  builder.create(OperationState(getLocation(location), name, results, {}));
  finishedRegions.push_back(std::move(scopes.back().region));
  scopes.pop_back();
  return finishedRegions.size() - 1;
}

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

/// Verifies the op just made; erases it again if it is wrong.
Expected<Value> GraphBuilder::finish(Operation *op,
                                     DiagnosticCollector &diagnostics,
                                     const SourceLocation &location) {
  if (succeeded(mlir::verify(op)))
    return op->getResult(0);
  Error error = diagnostics.takeError("the op failed to verify", location);
  op->erase();
  return error;
}

/// Result types by the op's own inference, from the attributes as they will be
/// stored.
static LogicalResult inferTypes(RegisteredOperationName info,
                                OperationState &state,
                                function_ref<InFlightDiagnostic()> emitError) {
  auto *inference = info.getInterface<InferTypeOpInterface>();
  if (!inference)
    return emitError() << "'" << state.name
                       << "' cannot infer its result types: state them";
  MLIRContext *context = state.getContext();
  DictionaryAttr dictionary = state.attributes.getDictionary(context);
  OpaqueProperties properties(nullptr);
  llvm::SmallVector<std::max_align_t> storage(llvm::divideCeil(
      std::max(info.getOpPropertyByteSize(), 1), sizeof(std::max_align_t)));
  llvm::scope_exit destroy([&] {
    if (properties)
      info.destroyOpProperties(properties);
  });
  if (info.getOpPropertyByteSize() > 0) {
    properties = OpaqueProperties(storage.data());
    info.initOpProperties(properties, OpaqueProperties(nullptr));
    if (failed(info.setOpPropertiesFromAttribute(state.name, properties,
                                                 dictionary, emitError)))
      return failure();
    info.populateDefaultProperties(properties);
  }
  return inference->inferReturnTypes(context, state.location, state.operands,
                                     dictionary, properties, state.regions,
                                     state.types);
}

Expected<std::vector<Value>> GraphBuilder::createOp(const OpRequest &request) {
  if (Error error = requireScope(request.location))
    return error;
  OperationName name(request.name, context.get());
  std::optional<RegisteredOperationName> info = name.getRegisteredInfo();
  if (!info)
    return makeError("unknown op '" + request.name + "'", request.location);
  Expected<NamedAttrList> attributes = parseAttributes(name, request);
  if (!attributes)
    return attributes.takeError();

  OperationState state(getLocation(request.location), name);
  llvm::SmallVector<int32_t> segments;
  for (const std::vector<Value> &group : request.operandGroups) {
    if (Error error = checkVisible(group, request.location))
      return error;
    state.addOperands(group);
    segments.push_back(group.size());
  }
  state.attributes = std::move(*attributes);
  if (info->hasTrait<OpTrait::AttrSizedOperandSegments>())
    state.addAttribute("operandSegmentSizes",
                       builder.getDenseI32ArrayAttr(segments));

  for (unsigned handle : request.regions) {
    if (handle >= finishedRegions.size() || !finishedRegions[handle])
      return makeError("expected the handle of a finished region, got " +
                           llvm::Twine(handle),
                       request.location);
    state.addRegion(std::move(finishedRegions[handle]));
  }

  DiagnosticCollector diagnostics(context.get());
  auto emitError = [&] { return mlir::emitError(state.location); };
  if (failed(info->verifyInherentAttrs(state.attributes, emitError)))
    return diagnostics.takeError("wrong attribute", request.location);
  if (request.resultTypes) {
    Expected<std::vector<Type>> types =
        parseTypeTexts(*request.resultTypes, request.location);
    if (!types)
      return types.takeError();
    state.addTypes(*types);
  } else if (failed(inferTypes(*info, state, emitError))) {
    return diagnostics.takeError("could not infer the result types",
                                 request.location);
  }
  Operation *op = builder.create(state);
  if (failed(mlir::verify(op))) {
    Error error =
        diagnostics.takeError("the op failed to verify", request.location);
    op->erase();
    return error;
  }
  return std::vector<Value>(op->result_begin(), op->result_end());
}

Expected<Value> GraphBuilder::constant(llvm::StringRef typeText,
                                       ArrayRef<char> bytes,
                                       const SourceLocation &location) {
  if (Error error = requireScope(location))
    return error;
  Expected<Type> type = parseTypeText(typeText, location);
  if (!type)
    return type.takeError();
  auto shaped = dyn_cast<RankedTensorType>(*type);
  if (!shaped || !shaped.hasStaticShape() ||
      !shaped.getElementType().isIntOrFloat())
    return makeError("expected a static tensor of numbers, got " + typeText,
                     location);
  size_t width = llvm::divideCeil(shaped.getElementTypeBitWidth(), 8);
  size_t all = shaped.getNumElements() * width;
  if (bytes.size() != all && bytes.size() != width)
    return makeError("expected " + llvm::Twine(all) + " bytes for " + typeText +
                         ", got " + llvm::Twine(bytes.size()),
                     location);
  DenseElementsAttr value;
  if (shaped.getElementType().isInteger(1)) {
    llvm::SmallVector<bool> bits(bytes.begin(), bytes.end());
    value = DenseElementsAttr::get(shaped, bits);
  } else {
    value = DenseElementsAttr::getFromRawBuffer(shaped, bytes);
  }
  DiagnosticCollector diagnostics(context.get());
  return finish(
      arith::ConstantOp::create(builder, getLocation(location), value),
      diagnostics, location);
}

/// A tensor of one value as a fill: bufferization gives each user a buffer of
/// its own and no copy of a constant.
Value GraphBuilder::fill(RankedTensorType type, TypedAttr value, Location loc) {
  Value scalar = arith::ConstantOp::create(builder, loc, value);
  Value empty = tensor::EmptyOp::create(builder, loc, type.getShape(),
                                        type.getElementType());
  return linalg::FillOp::create(builder, loc, scalar, empty).getResult(0);
}

static Expected<RankedTensorType> asTensor(Type type,
                                           const SourceLocation &location) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (tensor && tensor.hasStaticShape())
    return tensor;
  std::string text;
  llvm::raw_string_ostream(text) << type;
  return makeError("expected a tensor of static shape, got " + text, location);
}

Expected<RankedTensorType>
GraphBuilder::prepare(ArrayRef<Value> operands, llvm::StringRef resultType,
                      const SourceLocation &location) {
  if (Error error = requireScope(location))
    return error;
  if (Error error = checkVisible(operands, location))
    return error;
  Expected<Type> type = parseTypeText(resultType, location);
  if (!type)
    return type.takeError();
  return asTensor(*type, location);
}

Expected<RankedTensorType>
GraphBuilder::prepare(Value operand, const SourceLocation &location) {
  if (Error error = requireScope(location))
    return error;
  if (Error error = checkVisible({operand}, location))
    return error;
  return asTensor(operand.getType(), location);
}

Expected<Value> GraphBuilder::contract(Value lhs, Value rhs,
                                       ArrayRef<std::string> maps,
                                       llvm::StringRef resultType,
                                       const SourceLocation &location) {
  Expected<RankedTensorType> tensor = prepare({lhs, rhs}, resultType, location);
  if (!tensor)
    return tensor.takeError();
  llvm::SmallVector<Attribute> mapAttrs;
  for (const std::string &map : maps) {
    Expected<Attribute> attribute =
        parseAttributeText("affine_map<" + map + ">", location);
    if (!attribute)
      return attribute.takeError();
    mapAttrs.push_back(*attribute);
  }
  Location loc = getLocation(location);
  DiagnosticCollector diagnostics(context.get());
  Value init =
      fill(*tensor, builder.getZeroAttr(tensor->getElementType()), loc);
  auto op = linalg::ContractOp::create(builder, loc, TypeRange{*tensor},
                                       ValueRange{lhs, rhs}, ValueRange{init},
                                       builder.getArrayAttr(mapAttrs));
  return finish(op, diagnostics, location);
}

Expected<Value> GraphBuilder::reduce(Value input, ArrayRef<int64_t> axes,
                                     llvm::StringRef combiner,
                                     llvm::StringRef init,
                                     const SourceLocation &location) {
  Expected<RankedTensorType> tensor = prepare(input, location);
  if (!tensor)
    return tensor.takeError();
  Expected<Attribute> start = parseAttributeText(init, location);
  if (!start)
    return start.takeError();
  OperationName name(combiner, context.get());
  if (!name.isRegistered())
    return makeError("unknown op '" + combiner + "'", location);
  llvm::SmallVector<int64_t> kept;
  for (auto [axis, size] : llvm::enumerate(tensor->getShape()))
    if (!llvm::is_contained(axes, static_cast<int64_t>(axis)))
      kept.push_back(size);
  Type element = tensor->getElementType();
  Location loc = getLocation(location);
  DiagnosticCollector diagnostics(context.get());
  auto typed = dyn_cast<TypedAttr>(*start);
  if (!typed || typed.getType() != element)
    return makeError("expected a start value of the element type, got '" +
                         init + "'",
                     location);
  Value first = fill(RankedTensorType::get(kept, element), typed, loc);
  auto op = linalg::ReduceOp::create(
      builder, loc, ValueRange{input}, ValueRange{first}, axes,
      [&](OpBuilder &b, Location l, ValueRange args) {
        Operation *sum =
            b.create(OperationState(l, name, args, TypeRange{element}));
        linalg::YieldOp::create(b, l, sum->getResults());
      });
  return finish(op, diagnostics, location);
}

Expected<Value> GraphBuilder::broadcast(Value input,
                                        ArrayRef<int64_t> addedAxes,
                                        llvm::StringRef resultType,
                                        const SourceLocation &location) {
  Expected<RankedTensorType> tensor = prepare({input}, resultType, location);
  if (!tensor)
    return tensor.takeError();
  Location loc = getLocation(location);
  DiagnosticCollector diagnostics(context.get());
  Value init = tensor::EmptyOp::create(builder, loc, tensor->getShape(),
                                       tensor->getElementType());
  auto op = linalg::BroadcastOp::create(builder, loc, input, init, addedAxes);
  return finish(op, diagnostics, location);
}

Expected<Value> GraphBuilder::transpose(Value input,
                                        ArrayRef<int64_t> permutation,
                                        const SourceLocation &location) {
  Expected<RankedTensorType> tensor = prepare(input, location);
  if (!tensor)
    return tensor.takeError();
  if (static_cast<int64_t>(permutation.size()) != tensor->getRank() ||
      !isPermutationVector(permutation))
    return makeError("expected a permutation of " +
                         llvm::Twine(tensor->getRank()) + " axes",
                     location);
  llvm::SmallVector<int64_t> shape;
  for (int64_t axis : permutation)
    shape.push_back(tensor->getDimSize(axis));
  Location loc = getLocation(location);
  DiagnosticCollector diagnostics(context.get());
  Value init =
      tensor::EmptyOp::create(builder, loc, shape, tensor->getElementType());
  auto op = linalg::TransposeOp::create(builder, loc, input, init, permutation);
  return finish(op, diagnostics, location);
}

//===----------------------------------------------------------------------===//
// The whole module
//===----------------------------------------------------------------------===//

Error GraphBuilder::verify() {
  if (!scopes.empty())
    return makeError("expected every function to be ended", {});
  DiagnosticCollector diagnostics(context.get());
  if (failed(mlir::verify(*module)))
    return diagnostics.takeError("the module failed to verify", {});
  return Error::success();
}

std::string GraphBuilder::print(bool debugInfo) const {
  std::string text;
  llvm::raw_string_ostream os(text);
  OpPrintingFlags flags;
  if (debugInfo)
    flags.enableDebugInfo(true, /*prettyForm=*/false);
  // A module that is still growing may not verify; it prints all the same.
  flags.assumeVerified();
  ModuleOp(module.get())->print(os, flags);
  return text;
}

} // namespace jpmhc
