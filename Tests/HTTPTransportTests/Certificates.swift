import Foundation
import Testing

/// Certificates of one test, made by `openssl` in a folder of their own: an authority, a server of 127.0.0.1 and a client.
final class Certificates {
  let folder: String

  init() throws {
    folder = FileManager.default.temporaryDirectory.appending(path: "certificates-\(UUID().uuidString)")
      .path(percentEncoded: false)
    try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
    try makeAuthority("authority")
    try issue("server", extensions: "subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth\n")
    try issue("named-server", extensions: "subjectAltName=DNS:provider.test\nextendedKeyUsage=serverAuth\n")
    try issue("client", extensions: "extendedKeyUsage=clientAuth\n")
    try issue("other-client", extensions: "extendedKeyUsage=clientAuth\n")
    try makeAuthority("other-authority")
  }

  deinit {
    try? FileManager.default.removeItem(atPath: folder)
  }

  func pem(_ name: String) throws -> Data {
    try Data(contentsOf: URL(filePath: "\(folder)/\(name).pem"))
  }

  func key(_ name: String) throws -> String {
    try String(contentsOfFile: "\(folder)/\(name).key", encoding: .utf8)
  }

  private func makeAuthority(_ name: String) throws {
    try openssl([
      "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
      "-subj", "/CN=\(name)", "-keyout", "\(name).key", "-out", "\(name).pem",
    ])
  }

  private func issue(_ name: String, extensions: String) throws {
    try Data(extensions.utf8).write(to: URL(filePath: "\(folder)/\(name).ext"))
    try openssl([
      "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=\(name)",
      "-keyout", "\(name).key", "-out", "\(name).csr",
    ])
    try openssl([
      "x509", "-req", "-days", "2", "-in", "\(name).csr", "-CA", "authority.pem", "-CAkey", "authority.key",
      "-CAcreateserial", "-extfile", "\(name).ext", "-out", "\(name).pem",
    ])
  }

  private func openssl(_ arguments: [String]) throws {
    let process = Process()
    process.executableURL = URL(filePath: "/usr/bin/env")
    process.arguments = ["openssl"] + arguments
    process.currentDirectoryURL = URL(filePath: folder)
    process.standardInput = FileHandle.nullDevice
    process.standardOutput = FileHandle.nullDevice
    process.standardError = FileHandle.nullDevice
    try process.run()
    process.waitUntilExit()
    try #require(process.terminationStatus == 0, "openssl \(arguments[0]) ended with \(process.terminationStatus)")
  }
}
