import Glibc

/// libFuzzer around the targets (llvm.org/docs/LibFuzzer.html). One program for all, since building takes longer than
/// fuzzing one: `FUZZ_TARGET` names it, and `list` lists them.
@main
enum Harness {
  static let target: Target = {
    let name = getenv("FUZZ_TARGET").map { String(cString: $0) } ?? ""
    if let target = Target.all.first(where: { $0.name == name }) { return target }
    for target in Target.all { print(target.name, target.longest) }
    exit(name == "list" ? 0 : 64)
  }()

  static func main() {
    _ = target
    var count = CommandLine.argc
    var arguments = CommandLine.unsafeArgv
    exit(runDriver(&count, &arguments, testOneInput))
  }
}

/// libFuzzer's own main, for programs that have another.
@_silgen_name("LLVMFuzzerRunDriver")
func runDriver(
  _ count: UnsafeMutablePointer<CInt>,
  _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>>,
  _ test: @convention(c) (UnsafePointer<UInt8>?, Int) -> CInt
) -> CInt

@_cdecl("LLVMFuzzerTestOneInput")
public func testOneInput(_ bytes: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
  do {
    try Harness.target.check(Array(UnsafeBufferPointer(start: bytes, count: count)))
  } catch {
    fatalError("\(error)")
  }
  return 0
}
