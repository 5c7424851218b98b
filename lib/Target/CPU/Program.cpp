// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Program.h"
#include "llvm/Support/JSON.h"

using namespace jpmhc;
namespace json = llvm::json;

// ---- to JSON ----

static json::Value toJSON(const BufferSpec &spec) {
  return json::Object{{"shape", json::Array(spec.shape)},
                      {"dtype", spec.dtype},
                      {"tensor", spec.isTensor},
                      {"inplace", spec.inPlace}};
}

static json::Array toJSON(const std::vector<BufferSpec> &specs) {
  json::Array array;
  for (const BufferSpec &spec : specs)
    array.push_back(toJSON(spec));
  return array;
}

static json::Value toJSON(const EntrySpec &entry) {
  return json::Object{{"name", entry.name},
                      {"arguments", toJSON(entry.arguments)},
                      {"results", toJSON(entry.results)},
                      {"aliases", json::Array(entry.aliases)},
                      {"arena_bytes", entry.arenaBytes}};
}

std::string jpmhc::serializeProgram(const CPUProgram &program) {
  json::Array entries, kernels, objects;
  for (const EntrySpec &entry : program.entries)
    entries.push_back(toJSON(entry));
  for (const KernelSpec &kernel : program.kernels)
    kernels.push_back(json::Object{{"name", kernel.name},
                                   {"arguments", toJSON(kernel.arguments)}});
  for (const CPUObject &object : program.objects)
    objects.push_back(json::Object{
        {"name", object.name},
        {"bytes", static_cast<int64_t>(object.code->getBufferSize())}});
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream << json::Value(json::Object{{"entries", std::move(entries)},
                                     {"kernels", std::move(kernels)},
                                     {"objects", std::move(objects)}})
         << '\n';
  for (const CPUObject &object : program.objects)
    stream << object.code->getBuffer();
  return text;
}

// ---- from JSON ----

static bool fromJSON(const json::Value &value, BufferSpec &spec,
                     json::Path path) {
  json::ObjectMapper map(value, path);
  return map && map.map("shape", spec.shape) && map.map("dtype", spec.dtype) &&
         map.map("tensor", spec.isTensor) && map.map("inplace", spec.inPlace);
}

/// The list of buffers under `key`.
static bool fromJSON(const json::Value &value, llvm::StringRef key,
                     std::vector<BufferSpec> &specs, json::Path path) {
  const json::Array *array = value.getAsObject()->getArray(key);
  if (!array)
    return false;
  for (const json::Value &item : *array)
    if (!fromJSON(item, specs.emplace_back(), path.field(key)))
      return false;
  return true;
}

static bool fromJSON(const json::Value &value, EntrySpec &entry,
                     json::Path path) {
  json::ObjectMapper map(value, path);
  return map && map.map("name", entry.name) &&
         map.map("aliases", entry.aliases) &&
         map.map("arena_bytes", entry.arenaBytes) &&
         fromJSON(value, "arguments", entry.arguments, path) &&
         fromJSON(value, "results", entry.results, path);
}

static bool fromJSON(const json::Value &value, KernelSpec &kernel,
                     json::Path path) {
  json::ObjectMapper map(value, path);
  return map && map.map("name", kernel.name) &&
         fromJSON(value, "arguments", kernel.arguments, path);
}

llvm::Expected<CPUProgram> jpmhc::parseProgram(llvm::StringRef contents) {
  auto [header, code] = contents.split('\n');
  auto value = json::parse(header);
  if (!value)
    return value.takeError();
  json::Path::Root root;
  const json::Object *object = value->getAsObject();
  const json::Array *entries = object ? object->getArray("entries") : nullptr;
  const json::Array *kernels = object ? object->getArray("kernels") : nullptr;
  const json::Array *objects = object ? object->getArray("objects") : nullptr;
  if (!entries || !kernels || !objects)
    return llvm::createStringError(
        "expected entries, kernels and objects in a program");
  CPUProgram program;
  for (const json::Value &entry : *entries)
    if (!fromJSON(entry, program.entries.emplace_back(), root))
      return root.getError();
  for (const json::Value &kernel : *kernels)
    if (!fromJSON(kernel, program.kernels.emplace_back(), root))
      return root.getError();
  for (const json::Value &item : *objects) {
    const json::Object *fields = item.getAsObject();
    auto name = fields ? fields->getString("name") : std::nullopt;
    auto bytes = fields ? fields->getInteger("bytes") : std::nullopt;
    if (!name || !bytes || *bytes < 0 ||
        static_cast<size_t>(*bytes) > code.size())
      return llvm::createStringError("expected a whole object in a program");
    program.objects.push_back(
        {name->str(),
         llvm::MemoryBuffer::getMemBufferCopy(code.take_front(*bytes), *name)});
    code = code.drop_front(*bytes);
  }
  return program;
}
