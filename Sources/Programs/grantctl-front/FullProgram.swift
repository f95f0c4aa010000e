import BrokerSocket
import Glibc

/// The program with all subcommands.
enum FullProgram {
  private static let name = "grantctl"
  /// The kernel's longest path.
  private static let longestPath = 4096

  /// Goes on in it, with the same arguments.
  ///
  /// - Parameter connection: one on which the request of this command was sent.
  static func run(leaving connection: Int32?) -> Never {
    guard let path = location(of: own) else { Output.fail("/proc is not there to say where the rest of it is") }
    LeftConnection.leave(connection)
    execv(path, CommandLine.unsafeArgv)
    Output.fail("cannot run \(path): \(String(cString: strerror(errno)))\n  Install grantd again.")
  }

  /// An installed front is `PREFIX/bin/grantctl`, and the full program `PREFIX/lib/grantd/grantctl`. In a build folder both
  /// are in one folder under different names. No environment has a say in it, for it may be another's (sudo(8)).
  static func location(of own: String?) -> String? {
    guard let own, own.first == "/" else { return nil }
    let parts = own.split(separator: "/")
    let folder = parts.dropLast()
    let place = parts.last == name[...] ? folder.dropLast() + ["lib", "grantd", name[...]] : folder + [name[...]]
    return "/" + place.joined(separator: "/")
  }

  private static var own: String? {
    let bytes = [CChar](unsafeUninitializedCapacity: longestPath) { buffer, count in
      count = max(0, readlink("/proc/self/exe", buffer.baseAddress!, longestPath))
    }
    guard !bytes.isEmpty, bytes.count < longestPath else { return nil }
    let path = String(decoding: bytes.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    // While a newer version replaces it.
    let suffix = " (deleted)"
    return path.hasSuffix(suffix) ? String(path.dropLast(suffix.count)) : path
  }
}
