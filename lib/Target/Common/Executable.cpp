// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "jpmhc/Target/Executable.h"
#include "llvm/ADT/StringSwitch.h"

using namespace jpmhc;

int64_t BufferSpec::elements() const {
  int64_t count = 1;
  for (int64_t size : shape)
    count *= size;
  return count;
}

int64_t BufferSpec::bytes() const {
  return elements() * llvm::StringSwitch<int64_t>(dtype)
                          .Cases({"f64", "i64", "index"}, 8)
                          .Cases({"f32", "i32"}, 4)
                          .Cases({"f16", "bf16", "i16"}, 2)
                          .Default(1);
}
