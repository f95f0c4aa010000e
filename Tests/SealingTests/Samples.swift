import Foundation
import Sealing

/// A folder that is removed after the test.
final class TemporaryFolder: Sendable {
  let path = NSTemporaryDirectory() + "grantd-sealing-" + UUID().uuidString

  deinit { try? FileManager.default.removeItem(atPath: path) }

  /// In a folder that is not there yet.
  var key: KeyFile { KeyFile(path + "/key/grantd.key") }

  func contents(_ file: String) throws -> Data { try Data(contentsOf: URL(fileURLWithPath: file)) }

  /// Only for its owner.
  func write(_ contents: Data, to file: String) throws {
    try FileManager.default.createDirectory(
      atPath: (file as NSString).deletingLastPathComponent, withIntermediateDirectories: true,
      attributes: [.posixPermissions: 0o700])
    try contents.write(to: URL(fileURLWithPath: file))
    chmod(file, 0o600)
  }

  func mode(_ file: String) throws -> Int {
    let attributes = try FileManager.default.attributesOfItem(atPath: file)
    return (attributes[.posixPermissions] as? NSNumber)?.intValue ?? -1
  }

  /// What is beside the key, and itself.
  func keyFiles() throws -> [String] { try FileManager.default.contentsOfDirectory(atPath: path + "/key").sorted() }
}

enum Sample {
  static let keyText = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
  static let key = key(keyText)
  static let otherKey = key(String(keyText.reversed()))

  static func key(_ text: String, source: String = "test") -> SealingKey {
    do { return try SealingKey(Data(text.utf8), source: source) } catch { preconditionFailure("\(error)") }
  }
}

func bytes(hex text: String) -> Data {
  let digits = text.compactMap(\.hexDigitValue).map(UInt8.init)
  return Data(stride(from: 0, to: digits.count, by: 2).map { digits[$0] << 4 | digits[$0 + 1] })
}
