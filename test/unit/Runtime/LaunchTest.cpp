// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "RuntimeTest.h"

#include "jpmhc/Runtime/Device.h"

#include <cstring>
#include <numeric>
#include <thread>
#include <unistd.h>

namespace {
class LaunchTest : public RuntimeTest {};
} // namespace

/// out[i] = scale * in[i]; args: out, in, scale.
static void scaleRows(int64_t lo, int64_t hi, void **args) {
  auto *out = static_cast<float *>(args[0]);
  auto *in = static_cast<const float *>(args[1]);
  float scale = *static_cast<float *>(args[2]);
  for (int64_t i = lo; i < hi; ++i)
    out[i] = scale * in[i];
}

static const jpmhcKernel kScale = {scaleRows, "scale", "model.py:7:3", 1000,
                                   nullptr,   3,       nullptr};

TEST_F(LaunchTest, RunsEveryRow) {
  std::vector<float> in = makeNumbers(10000, 4);
  float scale = 3.0f;
  for (int count : {1, 2, 4}) {
    ASSERT_EQ(jpmhcSetNumThreads(count), JPMHC_OK);
    std::vector<float> out(in.size(), -1.0f);
    void *args[] = {out.data(), in.data(), &scale};
    ASSERT_EQ(jpmhcLaunch(context, &kScale, nullptr, 10, 9990, 16, args),
              JPMHC_OK);
    for (int64_t i = 0; i < 10000; ++i)
      ASSERT_EQ(out[i], i < 10 || i >= 9990 ? -1.0f : scale * in[i]);
  }
}

TEST_F(LaunchTest, EmptyRange) {
  EXPECT_EQ(jpmhcLaunch(context, &kScale, nullptr, 5, 5, 1, nullptr), JPMHC_OK);
  EXPECT_EQ(jpmhcLaunch(context, &kScale, nullptr, 5, 4, 1, nullptr), JPMHC_OK);
}

TEST_F(LaunchTest, Errors) {
  EXPECT_EQ(jpmhcLaunch(context, nullptr, nullptr, 0, 1, 1, nullptr),
            JPMHC_INVALID_ARGUMENT);
  EXPECT_EQ(getError(), "expected a context and a kernel, got null");
  EXPECT_EQ(jpmhcLaunch(nullptr, &kScale, nullptr, 0, 1, 1, nullptr),
            JPMHC_INVALID_ARGUMENT);
  EXPECT_EQ(jpmhcLaunch(context, &kScale, nullptr, 0, 1, 0, nullptr),
            JPMHC_INVALID_ARGUMENT);
  EXPECT_EQ(getError(),
            "expected a grain of at least 1 for kernel 'scale', got 0");
  jpmhcKernel foreign = kScale;
  foreign.function = nullptr;
  EXPECT_EQ(jpmhcLaunch(context, &foreign, nullptr, 0, 1, 1, nullptr),
            JPMHC_INVALID_ARGUMENT);
  EXPECT_EQ(getError(),
            "expected kernel 'scale' to have a CPU entry, got null");
}

TEST_F(LaunchTest, ErrorsBelongToTheirThread) {
  jpmhcFail(JPMHC_LAUNCH_FAILED, "mine");
  std::thread([this] {
    EXPECT_EQ(getError(), "");
    EXPECT_EQ(jpmhcFail(JPMHC_INDEX_OUT_OF_RANGE, "another's"),
              JPMHC_INDEX_OUT_OF_RANGE);
  }).join();
  EXPECT_EQ(getError(), "mine");
}

TEST_F(LaunchTest, UnknownDevice) {
  jpmhcContext *other = context;
  EXPECT_EQ(jpmhcContextCreate("abacus", &other), JPMHC_NOT_FOUND);
  EXPECT_EQ(other, nullptr);
  EXPECT_EQ(getError().rfind("expected a device out of cpu", 0), 0u);
  EXPECT_NE(getError().find("got 'abacus'"), std::string::npos);
  EXPECT_EQ(jpmhcContextCreate(nullptr, &other), JPMHC_INVALID_ARGUMENT);
  jpmhcContextDestroy(nullptr);
}

TEST_F(LaunchTest, RegistersDevices) {
  auto broken = [](int32_t *status) -> jpmhc::runtime::Device * {
    *status = jpmhc::runtime::fail(JPMHC_NOT_FOUND, "no driver %d", 7);
    return nullptr;
  };
  ASSERT_EQ(jpmhcRegisterDevice("broken", broken), JPMHC_OK);
  EXPECT_EQ(jpmhcRegisterDevice("broken", broken), JPMHC_INVALID_ARGUMENT);
  EXPECT_EQ(jpmhcRegisterDevice("cpu", broken), JPMHC_INVALID_ARGUMENT);
  EXPECT_EQ(getError(), "expected a new device name, got 'cpu' again");
  EXPECT_EQ(jpmhcRegisterDevice("null", nullptr), JPMHC_INVALID_ARGUMENT);
  jpmhcContext *other;
  EXPECT_EQ(jpmhcContextCreate("broken", &other), JPMHC_NOT_FOUND);
  EXPECT_EQ(getError(), "no driver 7");
}

//===----------------------------------------------------------------------===//
// Copies, streams, events
//===----------------------------------------------------------------------===//

TEST_F(LaunchTest, CopyAndFill) {
  for (int64_t bytes : {1, 1000, 3000001}) {
    std::vector<unsigned char> from(bytes), to(bytes + 1, 9);
    std::iota(from.begin(), from.end(), 0);
    ASSERT_EQ(jpmhcCopy(context, nullptr, to.data(), from.data(), bytes),
              JPMHC_OK);
    EXPECT_EQ(std::memcmp(from.data(), to.data(), bytes), 0);
    EXPECT_EQ(to[bytes], 9);
    ASSERT_EQ(jpmhcFill(context, nullptr, to.data(), 200, bytes), JPMHC_OK);
    EXPECT_EQ(to, [&] {
      std::vector<unsigned char> want(bytes + 1, 200);
      want[bytes] = 9;
      return want;
    }());
  }
  EXPECT_EQ(jpmhcCopy(context, nullptr, nullptr, nullptr, 0), JPMHC_OK);
  EXPECT_EQ(jpmhcFill(context, nullptr, nullptr, 0, 0), JPMHC_OK);
}

TEST_F(LaunchTest, CopyAndFillErrors) {
  char data[16] = {};
  EXPECT_EQ(jpmhcCopy(context, nullptr, data, data, 16), JPMHC_OK);
  EXPECT_EQ(jpmhcCopy(context, nullptr, data, data + 8, 8), JPMHC_OK);
  EXPECT_EQ(jpmhcCopy(context, nullptr, data, data + 8, 9 - 2), JPMHC_OK);
  EXPECT_EQ(jpmhcCopy(context, nullptr, data, data + 4, 5),
            JPMHC_INVALID_ARGUMENT);
  EXPECT_EQ(jpmhcCopy(context, nullptr, data + 4, data, 5),
            JPMHC_INVALID_ARGUMENT);
  EXPECT_EQ(getError(), "expected a copy between disjoint ranges, got 5 bytes "
                        "that overlap");
  EXPECT_EQ(jpmhcCopy(context, nullptr, data, data + 8, -1),
            JPMHC_INVALID_ARGUMENT);
  EXPECT_EQ(jpmhcCopy(context, nullptr, data, nullptr, 1),
            JPMHC_INVALID_ARGUMENT);
  EXPECT_EQ(jpmhcFill(context, nullptr, data, 256, 1), JPMHC_INVALID_ARGUMENT);
  EXPECT_EQ(getError(), "expected a fill of at least 0 bytes with a value of 0 "
                        "to 255, got 1 bytes and 256");
  EXPECT_EQ(jpmhcFill(context, nullptr, nullptr, 0, 1), JPMHC_INVALID_ARGUMENT);
}

TEST_F(LaunchTest, StreamsAndEvents) {
  void *stream, *start, *end;
  ASSERT_EQ(jpmhcStreamCreate(context, &stream), JPMHC_OK);
  ASSERT_EQ(jpmhcEventCreate(context, &start), JPMHC_OK);
  ASSERT_EQ(jpmhcEventCreate(context, &end), JPMHC_OK);
  int64_t nanoseconds = -1;
  EXPECT_EQ(jpmhcEventElapsed(context, start, end, &nanoseconds),
            JPMHC_INVALID_ARGUMENT);
  EXPECT_EQ(getError(), "expected two recorded events, got one never recorded");
  EXPECT_EQ(jpmhcEventRecord(context, start, stream), JPMHC_OK);
  EXPECT_EQ(jpmhcEventRecord(context, end, stream), JPMHC_OK);
  EXPECT_EQ(jpmhcEventWait(context, end, nullptr), JPMHC_OK);
  EXPECT_EQ(jpmhcStreamSynchronize(context, stream), JPMHC_OK);
  EXPECT_EQ(jpmhcEventElapsed(context, start, end, &nanoseconds), JPMHC_OK);
  EXPECT_GE(nanoseconds, 0);
  EXPECT_EQ(jpmhcEventDestroy(context, start), JPMHC_OK);
  EXPECT_EQ(jpmhcEventDestroy(context, end), JPMHC_OK);
  EXPECT_EQ(jpmhcStreamDestroy(context, stream), JPMHC_OK);
  EXPECT_EQ(jpmhcEventRecord(context, nullptr, nullptr),
            JPMHC_INVALID_ARGUMENT);
}

//===----------------------------------------------------------------------===//
// Trace
//===----------------------------------------------------------------------===//

TEST_F(LaunchTest, Trace) {
  struct Seen {
    std::string name, location;
    int64_t thread, start, end;
  };
  std::vector<Seen> seen;
  auto record = [](void *user, const jpmhcTraceEvent *event) {
    static_cast<std::vector<Seen> *>(user)->push_back(
        {event->name, event->location ? event->location : "", event->thread,
         event->startNs, event->endNs});
  };
  std::vector<float> data(64);
  float scale = 1;
  void *args[] = {data.data(), data.data(), &scale};
  auto runAll = [&] {
    EXPECT_EQ(jpmhcLaunch(context, &kScale, nullptr, 0, 64, 1, args), JPMHC_OK);
    EXPECT_EQ(jpmhcGemm(context, nullptr, JPMHC_F32, JPMHC_F32, 0, 0, 2, 2, 2,
                        data.data(), 2, data.data() + 8, 2, 0.0f,
                        data.data() + 16, 2, "model.py:9:1"),
              JPMHC_OK);
    EXPECT_EQ(jpmhcFill(context, nullptr, data.data(), 0, 64), JPMHC_OK);
    EXPECT_EQ(jpmhcCopy(context, nullptr, data.data(), data.data() + 16, 64),
              JPMHC_OK);
  };
  ASSERT_EQ(jpmhcSetTrace(context, record, &seen), JPMHC_OK);
  runAll();
  ASSERT_EQ(jpmhcSetTrace(context, nullptr, nullptr), JPMHC_OK);
  runAll();
  ASSERT_EQ(seen.size(), 4u);
  const char *names[] = {"scale", "gemm", "fill", "copy"};
  const char *locations[] = {"model.py:7:3", "model.py:9:1", "", ""};
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(seen[i].name, names[i]);
    EXPECT_EQ(seen[i].location, locations[i]);
    EXPECT_EQ(seen[i].thread, gettid());
    EXPECT_GE(seen[i].end, seen[i].start);
    EXPECT_GE(seen[i].start, i ? seen[i - 1].end : 1);
  }
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

TEST_F(LaunchTest, Arenas) {
  void *small, *large;
  ASSERT_EQ(jpmhcAlloc(context, 1, &small), JPMHC_OK);
  EXPECT_EQ(jpmhcCurrentBytes(context), 64);
  constexpr int64_t kLarge = (5 << 20) + 3;
  ASSERT_EQ(jpmhcAlloc(context, kLarge, &large), JPMHC_OK);
  for (void *memory : {small, large})
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % 64, 0u);
  std::memset(large, 1, kLarge);
  int64_t both = 64 + (5 << 20) + 64;
  EXPECT_EQ(jpmhcCurrentBytes(context), both);
  EXPECT_EQ(jpmhcFree(context, small), JPMHC_OK);
  EXPECT_EQ(jpmhcFree(context, small), JPMHC_INVALID_ARGUMENT);
  EXPECT_EQ(jpmhcCurrentBytes(context), both - 64);
  EXPECT_EQ(jpmhcPeakBytes(context), both);
  jpmhcResetPeakBytes(context);
  EXPECT_EQ(jpmhcPeakBytes(context), both - 64);
  EXPECT_EQ(jpmhcFree(context, static_cast<char *>(large) + 64),
            JPMHC_INVALID_ARGUMENT);
  EXPECT_EQ(getError().rfind("expected an arena of this context to free", 0),
            0u);
  // The context frees what is left.
}

TEST_F(LaunchTest, ArenaEdges) {
  void *memory = context;
  EXPECT_EQ(jpmhcAlloc(context, 0, &memory), JPMHC_OK);
  EXPECT_EQ(memory, nullptr);
  EXPECT_EQ(jpmhcFree(context, nullptr), JPMHC_OK);
  EXPECT_EQ(jpmhcAlloc(context, -1, &memory), JPMHC_INVALID_ARGUMENT);
  EXPECT_EQ(jpmhcAlloc(context, INT64_MAX, &memory), JPMHC_INVALID_ARGUMENT);
  EXPECT_EQ(jpmhcCurrentBytes(context), 0);
}

#if JPMHC_ASAN
// Lets the test below see the failure instead of ending the process.
extern "C" JPMHC_EXPORT const char *__asan_default_options() {
  return "allocator_may_return_null=1";
}
#endif

TEST_F(LaunchTest, ArenaTooLarge) {
  void *memory = context;
  EXPECT_EQ(jpmhcAlloc(context, int64_t(1) << 50, &memory),
            JPMHC_OUT_OF_MEMORY);
  EXPECT_EQ(memory, nullptr);
  EXPECT_EQ(getError(), "expected to allocate 1125899906842624 bytes on top of "
                        "0, got no memory");
  EXPECT_EQ(jpmhcPeakBytes(context), 0);
}
