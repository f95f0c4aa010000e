import Glibc
import Testing

@testable import Systemd

@Suite struct CredentialsTests {
  @Test("A credential is read whole, up to its limit")
  func read() throws {
    try withDirectory(["grantd.key": "0123456789\n", "empty": ""]) { directory in
      let credentials = Credentials(directory: directory)
      let whole = try credentials.read("grantd.key")
      let justFits = try credentials.read("grantd.key", limit: 11)
      let empty = try credentials.read("empty")
      #expect(whole == Array("0123456789\n".utf8))
      #expect(justFits == whole)
      #expect(empty == [])
      #expect(throws: Credentials.Failure.tooLarge("grantd.key", limit: 10)) {
        try credentials.read("grantd.key", limit: 10)
      }
      #expect(throws: Credentials.Failure.absent("other")) { try credentials.read("other") }
    }
  }

  @Test("Without a directory every credential is absent", arguments: [nil, ""])
  func noDirectory(directory: String?) {
    #expect(throws: Credentials.Failure.absent("key")) { try Credentials(directory: directory).read("key") }
  }

  @Test("A name cannot leave the directory", arguments: ["", ".", "..", "../etc/passwd", "a/b", "a\nb"])
  func invalidName(name: String) {
    #expect(throws: Credentials.Failure.invalidName(name)) { try Credentials(directory: "/etc").read(name) }
  }

  @Test("A path that is not a file cannot be read")
  func notAFile() {
    #expect(throws: Credentials.Failure.unreadable("etc", EISDIR)) { try Credentials(directory: "/").read("etc") }
  }

  private func withDirectory(_ files: [String: String], _ body: (String) throws -> Void) throws {
    var template = Array("/tmp/grantd-credentials-XXXXXX".utf8CString)
    let directory = try #require(mkdtemp(&template).map { String(cString: $0) })
    defer {
      for name in files.keys { unlink("\(directory)/\(name)") }
      rmdir(directory)
    }
    for (name, text) in files {
      let descriptor = open("\(directory)/\(name)", O_WRONLY | O_CREAT, 0o600)
      try #require(descriptor >= 0)
      try #require(write(descriptor, text, text.utf8.count) == text.utf8.count)
      close(descriptor)
    }
    try body(directory)
  }
}
