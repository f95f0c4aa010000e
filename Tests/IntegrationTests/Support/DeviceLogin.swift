import AsyncClient
import BrokerAPI
import DemoProvider
import Foundation
import TestSupport
import Testing

/// A login on another device (RFC 8628), as tests begin it and see it end.
enum DeviceLogin {
  struct Shown {
    var id: String
    var place: Destination
    var expiresAt: Int64
  }

  static func start(_ rig: Rig, _ account: String = "alice") async throws -> Shown {
    let result = try await rig.client.call(
      LoginStart.self, .init(provider: "demo", account: account, destinations: ["device"]), timeout: .seconds(30))
    guard let place = result.destinations.first, result.destinations.count == 1, place.kind == "device" else {
      throw Failed("login.start does not offer only a device")
    }
    return Shown(id: result.login_id, place: place, expiresAt: result.expires_at)
  }

  static func wait(_ rig: Rig, _ shown: Shown) async throws -> LoginWait.Result {
    try await rig.client.call(LoginWait.self, .init(login_id: shown.id, timeout: 20), timeout: .seconds(30))
  }

  static func failure(_ rig: Rig, _ shown: Shown) async throws -> RPCError {
    try await rig.failure("login.wait", ["login_id": .string(shown.id), "timeout": 20])
  }

  /// The provider is asked each second, the shortest that the broker does.
  static func with(_ wish: Wish = Wish(), _ body: (Rig) async throws -> Void) async throws {
    try await Rig.with(wish) { rig in
      rig.demo.changeSettings { $0.device.interval = .seconds(1) }
      try await body(rig)
    }
  }

  /// How often the provider has been asked for other logins, once one that began after them, and is asked each second, is
  /// completed.
  static func pollsBesideAnother(_ rig: Rig) async throws -> Int {
    let before = rig.count(.tokenDevice)
    let shown = try await start(rig, "bob")
    try await eventually("a poll of it") { rig.count(.tokenDevice) > before }
    try rig.demo.answerDevice(shown.place.user_code, user: "bob")
    #expect(try await wait(rig, shown).state == .completed)
    let codes = rig.requests(.tokenDevice).map { $0.parameters["device_code"] }
    return codes.filter { $0 != codes.last }.count
  }

  static func expectNothingLeft(_ rig: Rig) async throws {
    #expect(try await rig.call("account.list")["accounts"]?.array == [])
    #expect(try await rig.pendingLogins == 0)
  }
}
