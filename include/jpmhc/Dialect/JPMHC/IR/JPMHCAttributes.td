// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef JPMHC_ATTRIBUTES_TD
#define JPMHC_ATTRIBUTES_TD

include "jpmhc/Dialect/JPMHC/IR/JPMHCDialect.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"

class JPMHC_Enum<string name, string summary, list<I32EnumAttrCase> cases> : I32EnumAttr<name, summary, cases> {
  let cppNamespace = "::jpmhc";
  let genSpecializedAttr = 0;
}
class JPMHC_EnumAttr<JPMHC_Enum enum, string mnemonic> : EnumAttr<JPMHC_Dialect, enum, mnemonic> {
  let assemblyFormat = "`<` $value `>`";
}

def JPMHC_NormKind : JPMHC_Enum<"NormKind", "normalisation of a row", [
  I32EnumAttrCase<"layer", 0>, I32EnumAttrCase<"rms", 1>]>;
def JPMHC_NormKindAttr : JPMHC_EnumAttr<JPMHC_NormKind, "norm">;

def JPMHC_ReadWriteKind : JPMHC_Enum<"ReadWriteKind", "how a block reads and writes its streams", [
  I32EnumAttrCase<"softmax", 0>, I32EnumAttrCase<"sigmoid", 1>]>;
def JPMHC_ReadWriteKindAttr : JPMHC_EnumAttr<JPMHC_ReadWriteKind, "read_write">;

def JPMHC_BiasCorrection : JPMHC_Enum<"BiasCorrection", "where AdamAtan2 corrects the bias of its first moment", [
  I32EnumAttrCase<"outside", 0>, I32EnumAttrCase<"inside", 1>]>;
def JPMHC_BiasCorrectionAttr : JPMHC_EnumAttr<JPMHC_BiasCorrection, "bias_correction">;

def JPMHC_TargetKind : JPMHC_Enum<"TargetKind", "kind of machine that code is generated for", [
  I32EnumAttrCase<"cpu", 0>, I32EnumAttrCase<"gpu", 1>]>;

class JPMHC_Attr<string name, string mnemonic_> : AttrDef<JPMHC_Dialect, name> {
  let mnemonic = mnemonic_;
}

def JPMHC_TargetAttr : JPMHC_Attr<"Target", "target"> {
  let summary = "the machine that code is generated for";
  let description = [{
    Set once on a module (`jpmhc.target`), read by every pass that needs it. `lanes` is the number of token rows that
    one value of the n×n mathematics holds: a `vector<lanes x f32>` on a CPU, a scalar per thread (1) on a GPU.

    Example: `#jpmhc.target<cpu, chip = "znver4", lanes = 16>`.
  }];
  let parameters = (ins EnumParameter<JPMHC_TargetKind>:$kind, StringRefParameter<"processor name">:$chip,
                        "int64_t":$lanes);
  let assemblyFormat = "`<` $kind `,` `chip` `=` $chip `,` `lanes` `=` $lanes `>`";
}

def JPMHC_ManifoldAttr : JPMHC_Attr<"Manifold", "manifold"> {
  let summary = "a manifold of the registry with its parameters";
  let description = [{
    Names a registered projection of raw numbers onto n×n mixers. Parameters that are left out take the defaults of
    the registry; an unknown name or parameter, or a value out of its range, is an error.

    Example: `#jpmhc.manifold<"birkhoff", {rounds = 20 : i64}>`.
  }];
  let parameters = (ins StringRefParameter<"registered name">:$name, OptionalParameter<"::mlir::DictionaryAttr">:$parameters);
  let assemblyFormat = "`<` $name (`,` $parameters^)? `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// The registered manifold.
    const Manifold &getManifold() const;
    /// The parameters, defaults filled in.
    ManifoldParameters getValues() const;
  }];
}

#endif // JPMHC_ATTRIBUTES_TD
