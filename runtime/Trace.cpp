// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===- Trace.cpp - Traces in the format of Chrome and Perfetto ------------===//
//
// One recorder for the process. Names are copied: the code that holds them may
// be gone when the trace is written.
//
//===----------------------------------------------------------------------===//
#include "Clock.h"
#include "jpmhc/Runtime/Device.h"
#include "jpmhc/Runtime/Launch.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <string>
#include <unistd.h>
#include <vector>

using namespace jpmhc::runtime;

namespace {
struct Event {
  std::string name, location;
  int64_t thread, startNs, endNs;
};

struct Recorder {
  std::mutex mutex;
  std::vector<Event> events;
};
} // namespace

static Recorder &recorder() {
  static Recorder *const one = new Recorder; // threads may outlive statics
  return *one;
}

void jpmhcTraceRecord(const jpmhcTraceEvent *event) {
  if (!event)
    return;
  Event copy{event->name ? event->name : "",
             event->location ? event->location : "", event->thread,
             event->startNs, event->endNs};
  std::lock_guard<std::mutex> lock(recorder().mutex);
  recorder().events.push_back(std::move(copy));
}

int32_t jpmhcTraceStart(jpmhcContext *context) {
  return jpmhcSetTrace(
      context,
      [](void *, const jpmhcTraceEvent *event) { jpmhcTraceRecord(event); },
      nullptr);
}

int64_t jpmhcTraceNow() { return nowNs(); }

/// A string of JSON; control characters do not occur in names and files.
static std::string quoted(const std::string &text) {
  std::string result = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\')
      result += '\\';
    result += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return result + '"';
}

static bool writeEvents(FILE *file, const std::vector<Event> &events) {
  fprintf(file, "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n");
  const char *separator = "";
  for (const Event &event : events) {
    fprintf(file,
            "%s{\"ph\": \"X\", \"pid\": %d, \"tid\": %lld, \"ts\": %.3f, "
            "\"dur\": %.3f, \"name\": %s, \"args\": {\"location\": %s}}",
            separator, static_cast<int>(getpid()),
            static_cast<long long>(event.thread), event.startNs / 1e3,
            (event.endNs - event.startNs) / 1e3, quoted(event.name).c_str(),
            quoted(event.location).c_str());
    separator = ",\n";
  }
  fprintf(file, "\n]}\n");
  return !ferror(file) && fflush(file) == 0;
}

int32_t jpmhcTraceWrite(const char *path) {
  if (!path)
    return fail(JPMHC_INVALID_ARGUMENT, "expected a path of a trace, got null");
  std::vector<Event> events;
  {
    std::lock_guard<std::mutex> lock(recorder().mutex);
    events.swap(recorder().events);
  }
  std::string beside = std::string(path) + "." + std::to_string(getpid());
  FILE *file = fopen(beside.c_str(), "w");
  bool written = file && writeEvents(file, events);
  int error = errno;
  if (file && fclose(file) != 0 && written) {
    written = false;
    error = errno;
  }
  if (written && rename(beside.c_str(), path) == 0)
    return JPMHC_OK;
  error = written ? errno : error;
  remove(beside.c_str());
  return fail(JPMHC_NOT_FOUND, "expected to write the trace %s: %s", path,
              strerror(error));
}
