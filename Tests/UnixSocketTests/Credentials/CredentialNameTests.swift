import BrokerAPI
import Principals
import Testing

@testable import UnixSocket

@Suite struct CredentialNameTests {
  @Test(
    "The peer address that systemd binds is read, with the unit's exact name",
    arguments: [
      ("d3a/unit/backup.service/token", "backup.service", "token"),
      ("0/unit/a.socket/b", "a.socket", "b"), ("ffffffffffffffff/unit/t@x-y.service/odd id", "t@x-y.service", "odd id"),
      ("1/unit/dev-disk-by\\x2duuid-1.swap/x", "dev-disk-by\\x2duuid-1.swap", "x"),
      ("1/unit/_odd.service/grantd.work@example.com", "_odd.service", "grantd.work@example.com"),
      ("1/unit/a:b.mount/~!$%", "a:b.mount", "~!$%"),
    ])
  func good(address: String, unit: String, id: String) {
    let name = CredentialName([0] + Array(address.utf8))
    #expect(name?.unit == unit && name?.id == id)
  }

  @Test(
    "Whatever systemd would not have bound is none",
    arguments: [
      "", "/", "///", "1/unit/a.service", "1/unit/a.service/", "1/unit//x", "/unit/a.service/x", "1/unit/a.service/x/",
      "1/unit/a.service/x/y", "1/unit/a/b.service/x", "1//unit/a.service/x", "1/Unit/a.service/x", "1/user/a.service/x",
      "D3A/unit/a.service/x", "0x1/unit/a.service/x", "g/unit/a.service/x", "11111111111111111/unit/a.service/x",
      " 1/unit/a.service/x", "1/unit/a.service /x", "1/unit/a b.service/x", "1/unit/.service/x", "1/unit/a.slice/x",
      "1/unit/a.scope/x", "1/unit/a.timer/x", "1/unit/a/x", "1/unit/a.service/x:y", "1/unit/a.service/.",
      "1/unit/a.service/..", "1/unit/a.service/\u{1}", "1/unit/a.service/\u{7F}", "1/unit/a.service/é",
      "1/unit/é.service/x", "1/unit/a.service/x\u{0}", "1/unit/a.service\u{0}/x", "1/unit/../x",
    ])
  func bad(address: String) {
    #expect(CredentialName([0] + Array(address.utf8)) == nil)
    // Without the zero byte it is a file's path, or nothing.
    #expect(CredentialName(Array(address.utf8)) == nil)
  }

  @Test("Lengths have ends: 255 bytes of a unit, 255 of an id, 16 digits")
  func lengths() {
    func name(_ digits: Int, _ unit: Int, _ id: Int) -> CredentialName? {
      func run(_ count: Int) -> String { String(repeating: "a", count: count) }
      return CredentialName([0] + Array("\(run(digits))/unit/\(run(unit - 8)).service/\(run(id))".utf8))
    }
    #expect(name(16, 255, 255) != nil)
    #expect(name(17, 255, 255) == nil && name(16, 256, 255) == nil && name(16, 255, 256) == nil)
    #expect(name(0, 20, 1) == nil && name(1, 9, 1) != nil && name(1, 8, 1) == nil)
  }

  @Test("Noise and changed names never trap, and reading returns the written value")
  func noise() {
    var random = Seeded(state: 6)
    let whole = [0] + Array("d3a1/unit/backup@a\\x2db.service/grantd.work".utf8)
    let letters = Array("\u{0}/./unit:.service\\x2d@ \u{7F}é09afAF".utf8)
    for round in 0..<50_000 {
      var bytes = whole
      if round.isMultiple(of: 4) {
        bytes = (0..<Int.random(in: 0...108, using: &random)).map { _ in UInt8.random(in: 0...255, using: &random) }
      }
      for _ in 0..<Int.random(in: 0...4, using: &random) where !bytes.isEmpty {
        let place = Int.random(in: 0..<bytes.count, using: &random)
        let letter = letters[Int.random(in: 0..<letters.count, using: &random)]
        switch Int.random(in: 0..<3, using: &random) {
        case 0: bytes[place] = letter
        case 1: bytes.insert(letter, at: place)
        default: bytes.remove(at: place)
        }
      }
      guard let name = CredentialName(bytes) else { continue }
      let digits = bytes.dropFirst().prefix { $0 != UInt8(ascii: "/") }
      #expect(bytes == [0] + digits + Array("/unit/\(name.unit)/\(name.id)".utf8))
    }
  }
}

@Suite struct CredentialPeerTests {
  private typealias Refusal = CredentialRefusal

  private static let named = CredentialName([0] + Array("1/unit/backup.service/token".utf8))

  private func refusal(
    _ manager: CredentialServer.Manager, uid: UInt32, unit: String?, userUnit: String? = nil,
    name: CredentialName? = named
  ) -> CredentialRefusal? {
    let caller = Caller(uid: uid, gid: uid, groups: [], pid: 7, unit: unit, userUnit: userUnit)
    do throws(CredentialRefusal) {
      let request = try manager.request(name, from: caller)
      #expect(request == CredentialRequest(unit: "backup.service", id: "token", caller: caller))
      return nil
    } catch {
      return error
    }
  }

  @Test("Only PID 1's child in the unit's own control group is believed")
  func system() {
    func refusal(_ uid: UInt32, _ unit: String?, _ userUnit: String? = nil) -> CredentialRefusal? {
      self.refusal(.system, uid: uid, unit: unit, userUnit: userUnit)
    }
    #expect(refusal(0, "backup.service") == nil)
    #expect(refusal(1000, "backup.service") == .foreignUser(1000))
    #expect(refusal(1000, "user@1000.service", "backup.service") == .foreignUser(1000))
    #expect(refusal(0, "other.service") == .otherUnit(found: "other.service"))
    #expect(refusal(0, "backup.service.service") == .otherUnit(found: "backup.service.service"))
    #expect(refusal(0, "Backup.service") == .otherUnit(found: "Backup.service"))
    #expect(refusal(0, nil) == .unknownUnit)
    #expect(refusal(0, "init.scope") == .otherUnit(found: "init.scope"))
    // root's own manager has units of any name.
    #expect(refusal(0, "user@0.service", "backup.service") == .otherUnit(found: "user@0.service/backup.service"))
    #expect(refusal(0, "session-1.scope") == .otherUnit(found: "session-1.scope"))
    #expect(self.refusal(.system, uid: 0, unit: "backup.service", name: nil) == .unnamed)
  }

  @Test("user@.service may have credentials too, and what runs below it not in its name")
  func managerItself() {
    let name = CredentialName([0] + Array("1/unit/user@5.service/token".utf8))
    func isTaken(_ userUnit: String?) -> Bool {
      let caller = Caller(uid: 0, gid: 0, groups: [], pid: 7, unit: "user@5.service", userUnit: userUnit)
      return (try? CredentialServer.Manager.system.request(name, from: caller)) != nil
    }
    #expect(isTaken(nil) && isTaken("init.scope") && !isTaken("user@5.service") && !isTaken("a.service"))
  }

  @Test("In a user's instance only the user's own manager and its units are believed")
  func user() {
    func refusal(_ uid: UInt32, _ unit: String?, _ userUnit: String? = nil) -> CredentialRefusal? {
      self.refusal(.user(1000), uid: uid, unit: unit, userUnit: userUnit)
    }
    #expect(refusal(1000, "user@1000.service", "backup.service") == nil)
    #expect(refusal(1000, "user@1000.service", "other.service") == .otherUnit(found: "other.service"))
    #expect(refusal(1000, "user@1000.service") == .otherUnit(found: "user@1000.service"))
    #expect(refusal(1000, "user@1001.service", "backup.service") == .otherUnit(found: "user@1001.service"))
    // A system unit of that name that runs as the user.
    #expect(refusal(1000, "backup.service") == .otherUnit(found: "backup.service"))
    #expect(refusal(1000, nil) == .unknownUnit)
    #expect(refusal(1000, nil, "backup.service") == .unknownUnit)
    for uid in [0, 1001] as [UInt32] {
      #expect(refusal(uid, "user@1000.service", "backup.service") == .foreignUser(uid))
    }
  }

  @Test("Each refusal says what to do, in bounds")
  func words() {
    let long = String(repeating: "x", count: 10_000)
    for refusal in [
      .unnamed, .foreignUser(5), .unknownUnit, .otherUnit(found: long), .unidentified, .talked, .ended,
      .denied(RPCError(.providerError, long, hint: long)), .late(.seconds(60)), .unusable(bytes: 0),
      .unusable(bytes: 1 << 20), .stopping,
    ] as [CredentialRefusal] {
      #expect(!refusal.message.isEmpty && refusal.message.utf8.count < 600)
      #expect(refusal.hint.hasSuffix(".") || refusal.hint.contains("xxx"))
      #expect(refusal.hint.utf8.count < 600 && ErrorReason(rawValue: refusal.reason) != nil)
    }
  }
}
