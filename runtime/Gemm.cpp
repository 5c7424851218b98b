// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===- Gemm.cpp - Products by a BLAS on our own threads -------------------===//
//
// A product is cut into pieces, each one call of the BLAS at one thread. The
// cut depends on the shape alone, since a BLAS may sum in another order when
// its matrices have other sizes: so results are bit-equal for any number of
// threads.
//
//===----------------------------------------------------------------------===//
#include "Gemm.h"

#include <algorithm>
#include <cstdlib>
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>

using namespace jpmhc::runtime;

//===----------------------------------------------------------------------===//
// Loading
//===----------------------------------------------------------------------===//

using SgemmFn = void (*)(int order, int transA, int transB, int m, int n, int k,
                         float alpha, const float *a, int lda, const float *b,
                         int ldb, float beta, float *c, int ldc);

// Values of CBLAS's enumerations.
static constexpr int kRowMajor = 101;
static constexpr int kNoTrans = 111;
static constexpr int kTrans = 112;

namespace {
struct Blas {
  SgemmFn sgemm = nullptr;
  char error[400] = "";
};
} // namespace

/// A function under its plain name or the name it has in scipy-openblas32.
static void *findFunction(void *library, const char *name) {
  char prefixed[64];
  snprintf(prefixed, sizeof(prefixed), "scipy_%s", name);
  void *function = dlsym(library, prefixed);
  return function ? function : dlsym(library, name);
}

static void *openBlas(char *error, size_t errorSize) {
  if (const char *path = std::getenv("JPMHC_BLAS")) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library)
      snprintf(error, errorSize,
               "expected JPMHC_BLAS to name a loadable library, got '%s': %s",
               path, dlerror());
    return library;
  }
  // By name along this library's run path, which installing may have changed,
  // then where it was at build time.
  if (void *library = dlopen(JPMHC_BLAS_NAME, RTLD_NOW | RTLD_LOCAL))
    return library;
  void *library = dlopen(JPMHC_BLAS_PATH, RTLD_NOW | RTLD_LOCAL);
  if (!library)
    snprintf(error, errorSize, "expected a BLAS, got %s", dlerror());
  return library;
}

static void *loadInto(void *argument) {
  Blas &blas = *static_cast<Blas *>(argument);
  void *library = openBlas(blas.error, sizeof(blas.error));
  if (!library)
    return nullptr;
  blas.sgemm = reinterpret_cast<SgemmFn>(findFunction(library, "cblas_sgemm"));
  if (!blas.sgemm)
    snprintf(blas.error, sizeof(blas.error),
             "expected the BLAS to have cblas_sgemm, got none");
  // For a library that somebody has loaded before.
  if (void *set = findFunction(library, "openblas_set_num_threads"))
    reinterpret_cast<void (*)(int)>(set)(1);
  return nullptr;
}

/// OpenBLAS starts a thread for every processor that the loading thread may
/// use, so load it from a thread that may use one. (The other way, a variable
/// in the environment, would race with other threads.)
static Blas loadBlasOnce() {
  Blas blas;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(std::max(sched_getcpu(), 0), &one);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setaffinity_np(&attributes, sizeof(one), &one);
  pthread_t loader;
  if (pthread_create(&loader, &attributes, loadInto, &blas) == 0)
    pthread_join(loader, nullptr);
  else
    loadInto(&blas);
  pthread_attr_destroy(&attributes);
  return blas;
}

static const Blas &getBlas() {
  static const Blas blas = loadBlasOnce();
  return blas;
}

int32_t jpmhc::runtime::loadBlas() {
  const Blas &blas = getBlas();
  return blas.sgemm ? JPMHC_OK : jpmhcFail(JPMHC_NOT_FOUND, blas.error);
}

int32_t jpmhcDescribeBlas(char *path, int64_t size) {
  if (int32_t status = loadBlas())
    return status;
  Dl_info info{};
  dladdr(reinterpret_cast<void *>(getBlas().sgemm), &info);
  snprintf(path, size, "%s", info.dli_fname ? info.dli_fname : "unknown");
  return JPMHC_OK;
}

static void warmUpThread(int64_t, int64_t, void *) {
  // Larger than what a BLAS multiplies without its buffers.
  constexpr int kSize = 128;
  float a[kSize * kSize] = {}, c[kSize * kSize];
  getBlas().sgemm(kRowMajor, kNoTrans, kNoTrans, kSize, kSize, kSize, 1.0f, a,
                  kSize, a, kSize, 0.0f, c, kSize);
}

void jpmhc::runtime::warmUpBlas() {
  jpmhcParallelFor(0, 2 * jpmhcGetNumThreads(), 1, warmUpThread, nullptr);
}

//===----------------------------------------------------------------------===//
// Cutting and running
//===----------------------------------------------------------------------===//

/// Multiply-adds that make a piece, or a task, worth a thread: about 20 us.
static constexpr double kPieceWork = 1 << 20;
/// Every piece packs the uncut matrix again, which takes a share of its time
/// that only its length decides: measured about 5 % at 256 rows, 14 % at 128.
/// Up to kFewPieces, shorter ones are worth it.
static constexpr int64_t kPieceLength = 256;
static constexpr int64_t kShortPieceLength = 128;
static constexpr int64_t kFewPieces = 4;
/// Pieces begin at multiples of the BLAS's register blocks.
static constexpr int64_t kPieceMultiple = 16;

namespace {
/// How one product is cut: along the rows or the columns of C.
struct Cut {
  bool alongRows;
  int64_t pieces, length;
};

struct GemmTask {
  const GemmCall &call;
  Cut cut;
};
} // namespace

static int64_t ceilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// Cuts by the shape alone, along the longer side of C. A number of pieces
/// above kFewPieces is a multiple of it, to be dealt evenly.
static Cut cutGemm(int64_t m, int64_t n, int64_t k) {
  int64_t extent = std::max(m, n);
  double work = double(m) * double(n) * double(k);
  int64_t most = extent / kPieceLength / kFewPieces * kFewPieces;
  most = std::max(most, std::min(kFewPieces, extent / kShortPieceLength));
  auto pieces = static_cast<int64_t>(
      std::clamp(work / kPieceWork, 1.0, std::max(double(most), 1.0)));
  int64_t length =
      ceilDiv(ceilDiv(extent, pieces), kPieceMultiple) * kPieceMultiple;
  return {m >= n, ceilDiv(extent, length), length};
}

/// C = beta C, all of a product whose k is 0. Done here, so that it does not
/// hang on what a BLAS makes of an empty sum.
static void scale(float *c, int64_t m, int64_t n, int64_t ldc, float beta) {
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j)
      c[i * ldc + j] = beta == 0.0f ? 0.0f : beta * c[i * ldc + j];
}

static void runPiece(const GemmTask &task, int64_t index) {
  const GemmCall &call = task.call;
  int64_t batch = index / task.cut.pieces;
  int64_t begin = index % task.cut.pieces * task.cut.length;
  const float *a = static_cast<const float *>(call.a) + batch * call.strideA;
  const float *b = static_cast<const float *>(call.b) + batch * call.strideB;
  float *c = static_cast<float *>(call.c) + batch * call.strideC;
  int64_t m = call.m, n = call.n;
  if (task.cut.alongRows) {
    m = std::min(task.cut.length, m - begin);
    a += call.transA ? begin : begin * call.lda;
    c += begin * call.ldc;
  } else {
    n = std::min(task.cut.length, n - begin);
    b += call.transB ? begin * call.ldb : begin;
    c += begin;
  }
  if (call.k == 0)
    return scale(c, m, n, call.ldc, call.beta);
  getBlas().sgemm(kRowMajor, call.transA ? kTrans : kNoTrans,
                  call.transB ? kTrans : kNoTrans, m, n, call.k, 1.0f, a,
                  call.lda, b, call.ldb, call.beta, c, call.ldc);
}

static void runPieces(int64_t lo, int64_t hi, void *user) {
  for (int64_t index = lo; index < hi; ++index)
    runPiece(*static_cast<const GemmTask *>(user), index);
}

void jpmhc::runtime::runGemm(const GemmCall &call) {
  GemmTask task{call, cutGemm(call.m, call.n, call.k)};
  // Several small products make a task.
  double pieceWork = double(call.m) * double(call.n) *
                     double(std::max<int64_t>(call.k, 1)) /
                     double(task.cut.pieces);
  auto grain = static_cast<int64_t>(
      std::max(1.0, std::min(kPieceWork / pieceWork, 1e9)));
  jpmhcParallelFor(0, call.batch * task.cut.pieces, grain, runPieces, &task);
}
