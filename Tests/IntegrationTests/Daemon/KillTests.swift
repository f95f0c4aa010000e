import BrokerAPI
import DemoProvider
import Foundation
import TestSupport
import Testing

@Suite("A daemon that is killed at any moment")
struct KillTests {
  /// What has just happened to a refresh at the provider.
  private enum Moment: String, CaseIterable {
    case arrived, rotated, answered
  }

  /// Each several times: how far the daemon has come by then varies.
  private static let moments = (1...3).flatMap { _ in Moment.allCases }

  /// Refreshed after a second; the provider takes a tenth of a second before it rotates and as long after.
  private static func wish(_ rotation: DemoServer.Rotation) -> Wish {
    Wish {
      $0.accessTTL = 4
      $0.rotation = rotation
      $0.provider = "rotation = \"\(rotation == .grace ? "grace 60s" : rotation.rawValue)\""
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
        try await Self.killDuringRefresh(rig, when: moment)
        try await rig.start()
        let token = try await rig.token()
        #expect(try await works(token.access_token, at: rig.demo), "killed when one had \(moment.rawValue)")
      }
      #expect(rig.demo.stats().grants.count == 1)
      #expect(rig.demo.stats().liveGrants == 1)
    }
  }

  @Test("with strict rotation a token works, or the lost rotation is named")
  func strict() async throws {
    try await Rig.with(Self.wish(.strict)) { rig in
      try await rig.login()
      try Self.slowDown(rig.demo)
      for moment in Self.moments {
        try await Self.killDuringRefresh(rig, when: moment)
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
          #expect(error.detail == "lost_rotation", "killed when one had \(moment.rawValue)")
          try await rig.login()
        } else {
          #expect(
            try await works(try await rig.token().access_token, at: rig.demo), "killed when one had \(moment.rawValue)")
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
      try rig.demo.fault(.delay, at: .tokenCode, times: 1) { $0.seconds = 60 }
      let page = Task { try? await Browser.open(callback.url) }
      try await eventually("the exchange is under way") { rig.demo.stats().requests["token.code"] == 1 }
      try rig.kill9()
      rig.demo.release()
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

  private static func killDuringRefresh(_ rig: Rig, when moment: Moment) async throws {
    let before = rig.demo.stats()
    try await eventually("a refresh has \(moment.rawValue)", every: .milliseconds(1)) {
      let stats = rig.demo.stats()
      guard stats.requests["token.refresh", default: 0] > before.requests["token.refresh", default: 0] else {
        return false
      }
      return switch moment {
      case .arrived: true
      case .rotated: stats.refreshes > before.refreshes
      case .answered: stats.refreshes > before.refreshes && stats.refreshesInFlight == 0
      }
    }
    try rig.kill9()
  }
}
