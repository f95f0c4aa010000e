import BrokerAPI
import DemoProvider
import Foundation
import TestSupport
import Testing

@Suite("A daemon that is killed at any moment")
struct KillTests {
  /// Moments spread over the time that a refresh takes, in milliseconds after one began; the same in each run.
  private static let moments = [0, 40, 90, 130, 170, 210, 260, 320]

  /// Refreshed after a second; the provider takes a tenth of a second before it rotates and as long after.
  private static func wish(_ rotation: DemoServer.Rotation) -> Wish {
    Wish {
      $0.accessTTL = 4
      $0.rotation = rotation
      $0.provider = "rotation = \"\(rotation == .grace ? "grace \(5 * slowness)s" : rotation.rawValue)\""
      $0.refresh = "share = 0.25\njitter = 0\nretry_delays = [\"1s\"]"
    }
  }

  @Test(
    "needs no new login where the provider still takes the old refresh token",
    arguments: [
      DemoServer.Rotation.none, .grace,
    ])
  func recovers(rotation: DemoServer.Rotation) async throws {
    try await Rig.with(Self.wish(rotation)) { rig in
      try await rig.login()
      try Self.slowDown(rig.demo)
      for moment in Self.moments {
        try await Self.killDuringRefresh(rig, after: moment)
        try await rig.start()
        let token = try await rig.token()
        #expect(try await works(token.access_token, at: rig.demo), "killed after \(moment) ms")
      }
      #expect(rig.demo.stats().grants.count == 1)
      #expect(rig.demo.stats().liveGrants == 1)
    }
  }

  @Test("where rotation is strict a token works, or the lost rotation is named; nothing else happens")
  func strict() async throws {
    try await Rig.with(Self.wish(.strict)) { rig in
      try await rig.login()
      try Self.slowDown(rig.demo)
      for moment in Self.moments {
        try await Self.killDuringRefresh(rig, after: moment)
        try await rig.start()
        let expiry = Double(try await rig.account().expires_at ?? 0)
        try await eventually("a refresh has ended, one way or the other") {
          let account = try await rig.account()
          if account.state == .loginRequired { return true }
          return account.state == .ok && Double(account.expires_at ?? 0) > expiry
        }
        if try await rig.account().state == .loginRequired {
          let generation = try await rig.account().generation
          let error = try await rig.failure(
            "token.report_rejected", ["account": "alice", "generation": .integer(generation)])
          #expect(error.detail == "lost_rotation", "killed after \(moment) ms")
          try await rig.login()
        } else {
          #expect(try await works(try await rig.token().access_token, at: rig.demo), "killed after \(moment) ms")
        }
      }
      #expect(rig.demo.stats().liveGrants == 1)
      #expect(rig.demo.stats().refreshesInFlightMax <= 2)
    }
  }

  @Test("during the exchange of a code never sends it again: the login is over, and a new one works")
  func exchange() async throws {
    try await Rig.with { rig in
      let login = try await rig.startLogin()
      let callback = try await rig.callback(of: login)
      try rig.demo.fault(.delay, at: .tokenCode, times: 1) { $0.seconds = 1 }
      let page = Task { try? await Browser.open(callback.url) }
      try await eventually("the exchange is under way") { rig.demo.stats().requests["token.code"] == 1 }
      try rig.kill9()
      _ = await page.value
      try await rig.start()
      #expect(try await rig.call("login.list")["logins"]?.array == [])
      // The browser tries again.
      #expect(try await Browser.open(callback.url).status == 400)
      #expect(rig.demo.stats().requests["token.code"] == 1)
      #expect(try await rig.call("account.list")["accounts"]?.array == [])
      try await rig.login()
    }
  }

  private static func slowDown(_ demo: DemoServer) throws {
    for moment in DemoServer.Fault.Moment.allCases {
      try demo.fault(.delay, at: .tokenRefresh) {
        $0.seconds = 0.1
        $0.moment = moment
      }
    }
  }

  private static func killDuringRefresh(_ rig: Rig, after milliseconds: Int) async throws {
    let before = rig.demo.stats().requests["token.refresh"] ?? 0
    try await eventually("a refresh arrives") { (rig.demo.stats().requests["token.refresh"] ?? 0) > before }
    try await Task.sleep(for: .milliseconds(milliseconds))
    try rig.kill9()
  }
}
