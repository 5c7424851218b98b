func.func private @kernel(index, index, memref<4xf32>)
func.func @launch(%i: index, %x: memref<4xf32>) {
  jpmhc.launch @kernel rows(%i, %i) grain 64(%x) : memref<4xf32>
  return
}
