import Broker
import Foundation
import OAuth
import Testing

@testable import SQLiteStore

// Made once and kept: what is on a disk must open with every later version.
@Suite("What was sealed by an earlier version")
struct EarlierFormTests {
  private static func bytes(hex text: String) -> Data {
    let digits = text.compactMap(\.hexDigitValue).map(UInt8.init)
    return Data(stride(from: 0, to: digits.count, by: 2).map { digits[$0] << 4 | digits[$0 + 1] })
  }

  @Test(
    "opens: a column, the note of the key",
    arguments: [
      (
        "a refresh token", Place(table: "grants", row: ["work", "op"]), "refresh_token",
        "01bc4ee36557d54d8dee19a9013a283dd5d7315e0142781cfcd40c4bc2c7"
          + "1043e03fdac3ac296a141ae7b9637fe1094e"
      ),
      (
        "grantd", Place(table: "meta", row: ["key_check"]), "value",
        "01bc4ee36542dc69ddb9ccc233b43b08a57b234317621c527a37a8a2715664bc45c7e10aadc3e2"
      ),
    ])
  func column(value: String, place: Place, column: String, sealed: String) throws {
    #expect(try Sample.key.sealer.open(Self.bytes(hex: sealed), at: place, column: column) == Data(value.utf8))
  }

  @Test(
    "opens: a backup, by passphrase and by key",
    arguments: [
      (
        BackupSecret.passphrase(Secret("correct horse battery")),
        """
        Z3JhbnRkLWJhY2t1cAoBAQQBAYVwVx8GOhtcnCVvM8zIYdiX/DxHtGti8pSTaOu7lk8JiOfEW6ka6pGoO3IoGbC9hDIQr77MtvEh\
        cttFD8DoQIy0dN6mrfqyFmkm+4RHvf664MXKfk33KvLoN24Ty/j5x7KHQWvT1Kw=
        """
      ),
      (
        .key(Array(0..<32)),
        """
        Z3JhbnRkLWJhY2t1cAoBAAAAAKvt2s3gefAm8tg0ZBkdixDVLWMDrLcVkvl7nB4mQCEqLFrZwL5OTlGkSMnWFKXDiQGNSk8uIP6a\
        3EUHVQWW3bDP0cYE2dArwfOqZ2aAH3akE5IC6xXs/Ohf3erw3VWbCf7PchEZwZ8=
        """
      ),
    ])
  func backup(secret: BackupSecret, text: String) throws {
    let file = try #require(Data(base64Encoded: text))
    #expect(try BackupFile.open(Array(file), with: secret) == Data("the whole state".utf8))
  }
}
