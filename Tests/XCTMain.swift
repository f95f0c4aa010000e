import Foundation
import Testing

/// The entry point of SwiftPM's tests. Without this file it looks for tests of XCTest in the index that a build writes for
/// editors, and the scripts build without one; there are no such tests. With it `swift test` runs those of Swift Testing
/// only on request.
@main
enum Main {
  static func main() async {
    let arguments = CommandLine.arguments
    if let option = arguments.firstIndex(of: "--testing-library"), arguments[option + 1] == "swift-testing" {
      await Testing.__swiftPMEntryPoint() as Never
    }
    if arguments.contains("--dump-tests-json") { return print(#"{"name":"All tests","tests":[]}"#) }
    let advice = "use `scripts/swiftpm test`, or `swift test --enable-swift-testing --disable-xctest`"
    FileHandle.standardError.write(Data("Nothing was tested: \(advice).\n".utf8))
    exit(1)
  }
}
