import BrokerAPI
import Foundation
import Grants
import OAuth
import Providers
import Synchronization
import Testing

@testable import Broker

@Suite("A login on another device", .scheduled)
struct DevicePollingTests {
  private static let place = """
    {"device_code":"d","user_code":"AB-CD","verification_uri":"https://id.example/device","expires_in":1800,\
    "interval":5}
    """

  private static func configuration() -> BrokerConfiguration {
    .plain([
      OAuthProvider(.plain { $0.server.endpoints[.deviceAuthorization] = "https://id.example/device_authorization" })
    ])
  }

  private static func begin() async throws -> (Rig, LoginStart.Result) {
    let rig = try await Rig(configuration: configuration())
    rig.transport.answer(.device) { _ in reply(place) }
    let login = try await rig.call(
      LoginStart.self, .init(provider: "example", account: "work", destinations: ["device"]))
    return (rig, login)
  }

  private static func oauth(_ code: String, headers: [HTTPRequest.Header] = []) -> ScriptedTransport.Answer {
    { _ in reply(#"{"error":"\#(code)"}"#, status: 400, headers: headers) }
  }

  private static func status(_ status: Int, retryAfter: String? = nil) -> ScriptedTransport.Answer {
    { _ in HTTPResponse(status: status, headers: retryAfter.map { [.init("Retry-After", $0)] } ?? []) }
  }

  /// Lets exactly this long pass until the next poll; nothing is asked a second earlier.
  private func expectPoll(_ rig: Rig, after seconds: Int, answered answer: @escaping ScriptedTransport.Answer) async {
    #expect(await eventually { rig.clock.sleepers == 1 })
    let before = rig.transport.count(.token)
    rig.transport.answer(.token, answer)
    rig.clock.advance(.seconds(seconds - 1))
    await settle()
    #expect(rig.transport.count(.token) == before, "asked before \(seconds) s")
    rig.clock.advance(.seconds(1))
    #expect(await eventually { rig.transport.count(.token) == before + 1 }, "not asked after \(seconds) s")
  }

  @Test("49. interval 5 by default; `slow_down` adds 5 for good; a network error backs off and lengthens nothing")
  func intervals() async throws {
    let (rig, login) = try await Self.begin()
    await expectPoll(rig, after: 5, answered: Self.oauth("authorization_pending"))
    await expectPoll(rig, after: 5, answered: Self.oauth("slow_down"))
    await expectPoll(rig, after: 10, answered: Self.status(503))
    await expectPoll(rig, after: 20, answered: TokenServer.failing(.lost))
    await expectPoll(rig, after: 40, answered: Self.status(500))
    await expectPoll(rig, after: 60, answered: TokenServer.failing(.notSent))
    let waiting = Self.oauth("authorization_pending", headers: [.init("Retry-After", "30")])
    await expectPoll(rig, after: 60, answered: waiting)
    await expectPoll(rig, after: 30, answered: Self.oauth("authorization_pending"))
    await expectPoll(rig, after: 10, answered: Self.status(429, retryAfter: "25"))
    await expectPoll(rig, after: 25, answered: Self.oauth("authorization_pending"))
    await expectPoll(rig, after: 10, answered: Self.oauth("slow_down"))
    #expect(try await rig.waitFor(login).state == .pending)
    await expectPoll(rig, after: 15, answered: TokenServer.rotating)
    #expect(try await eventually { try await rig.waitFor(login).state == .completed })
    await settle()
    #expect(rig.clock.sleepers == 0)
    #expect(try await rig.view("work").grant == "device_code")
  }

  @Test("49. polling survives a restart, and so does what `slow_down` added")
  func restart() async throws {
    let (first, login) = try await Self.begin()
    await expectPoll(first, after: 5, answered: Self.oauth("slow_down"))
    #expect(await eventually { first.clock.sleepers == 1 })
    let second = try await Rig(store: first.store, configuration: Self.configuration())
    await expectPoll(second, after: 10, answered: Self.oauth("authorization_pending"))
    await expectPoll(second, after: 10, answered: TokenServer.rotating)
    #expect(try await eventually { try await second.waitFor(login).state == .completed })
    #expect(second.transport.requests(.token).allSatisfy { $0.form["device_code"] == "d" })
  }

  @Test(
    "49. `expired_token`, `access_denied` and permanent errors stop",
    arguments: [
      ("expired_token", ErrorReason.loginExpired), ("invalid_grant", .loginExpired), ("access_denied", .loginDenied),
      ("invalid_client", .providerMisconfigured), ("unheard_of", .providerError),
    ])
  func stops(code: String, reason: ErrorReason) async throws {
    let (rig, login) = try await Self.begin()
    await expectPoll(rig, after: 5, answered: Self.oauth(code))
    #expect(await eventually { await rig.reason { try await rig.waitFor(login) } == reason })
    await settle()
    #expect(rig.clock.sleepers == 0)
    #expect(try await rig.call(AccountList.self, .init()).accounts.isEmpty)
  }

  @Test("49. `slow_down` is at most 300 s regardless of `Retry-After`, and no login waits beyond its own end")
  func longWaits() async throws {
    let (rig, login) = try await Self.begin()
    await expectPoll(rig, after: 5, answered: Self.oauth("slow_down", headers: [.init("Retry-After", "86400")]))
    await expectPoll(rig, after: 300, answered: Self.status(503, retryAfter: "86400"))
    #expect(await eventually { rig.clock.sleepers == 1 })
    rig.clock.advance(.seconds(1800 - 305 - 1))
    await settle()
    #expect(rig.clock.sleepers == 1)
    rig.clock.advance(.seconds(1))
    #expect(await eventually { rig.clock.sleepers == 0 }, "a task waits for a login that has ended")
    #expect(rig.transport.count(.token) == 2)
    _ = await rig.broker.tick()
    #expect(await eventually { await rig.reason { try await rig.waitFor(login) } == .loginExpired })
  }

  @Test("a login that is cancelled or whose time is over is asked for no more")
  func cancelled() async throws {
    let (rig, login) = try await Self.begin()
    #expect(await eventually { rig.clock.sleepers == 1 })
    _ = try await rig.call(LoginCancel.self, .init(login_id: login.login_id))
    rig.clock.advance(.seconds(5))
    #expect(await eventually { rig.clock.sleepers == 0 })
    let (other, _) = try await Self.begin()
    #expect(await eventually { other.clock.sleepers == 1 })
    other.clock.advance(.seconds(1801))
    #expect(await eventually { other.clock.sleepers == 0 })
    #expect(rig.transport.count(.token) == 0 && other.transport.count(.token) == 0)
  }

  // MARK: A login that a browser completes as well

  private static func beginBoth() async throws -> (Rig, LoginStart.Result) {
    let rig = try await Rig(configuration: configuration())
    rig.transport.answer(.device) { _ in reply(place) }
    let login = try await rig.call(
      LoginStart.self, .init(provider: "example", account: "work", destinations: ["browser", "manual", "device"]))
    return (rig, login)
  }

  @Test("continues polling if the callback could not be saved")
  func callbackFails() async throws {
    let (rig, login) = try await Self.beginBoth()
    rig.transport.answer(.token, Self.oauth("authorization_pending"))
    rig.store.set(.hangs) { $0.contains { if case .removeLogin = $0 { true } else { false } } }
    let callback = Task { await rig.callBack(login).kind }
    #expect(await eventually { rig.store.hanging == 1 && rig.clock.sleepers >= 1 })
    rig.clock.advance(.seconds(5))
    await settle()
    #expect(rig.transport.count(.token) == 0)
    rig.store.set(.fails)
    #expect(await callback.value == .refused)
    rig.store.set(.works)
    rig.transport.answer(.token, TokenServer.rotating)
    #expect(try await rig.clock.reaches(by: .seconds(5)) { try await rig.waitFor(login).state == .completed })
  }

  @Test("is not ended by the device's answer, before or after the browser's", arguments: [true, false])
  func both(_ isDeviceFirst: Bool) async throws {
    let (rig, login) = try await Self.beginBoth()
    rig.transport.hold(.token)
    #expect(await eventually { rig.clock.sleepers >= 1 })
    rig.clock.advance(.seconds(5))
    #expect(await eventually { rig.transport.held(.token) == 1 })
    let callback = Task { await rig.callBack(login).kind }
    #expect(await eventually { rig.transport.held(.token) == 2 })
    rig.transport.releaseOne(.token, last: !isDeviceFirst)
    #expect(await eventually { await rig.broker.logins.table.exchangesInFlight == 1 })
    rig.transport.release(.token)
    #expect(await callback.value == .completed)
    #expect(await eventually { await rig.broker.logins.table.exchangesInFlight == 0 })
    #expect(rig.store.revocations.isEmpty && rig.store.grant("work") != nil)
  }

  enum Moment: CaseIterable { case before, exchanging, after }

  private static let codes = ["expired_token", "access_denied", "invalid_grant", "invalid_client", "unheard_of"]
  static let ends = codes.flatMap { code in Moment.allCases.map { (code, $0) } }

  @Test(
    "continues if the device's part ends, before, during or after the browser's",
    arguments: ends)
  func deviceEnds(code: String, moment: Moment) async throws {
    let (rig, login) = try await Self.beginBoth()
    let refusal = TokenServer.refused(code)
    rig.transport.answer(.token) { request throws(TransportError) in
      if request.form["device_code"] != nil { return try refusal(request) }
      return TokenServer.granted(request, lifetime: 3600)
    }
    rig.transport.hold(.token)
    #expect(await eventually { rig.clock.sleepers >= 1 })
    rig.clock.advance(.seconds(5))
    #expect(await eventually { rig.transport.held(.token) == 1 })
    if moment == .before {
      rig.transport.release(.token)
      #expect(await eventually { rig.store.logins.first?.device == nil })
      #expect(try await rig.waitFor(login).state == .pending && rig.store.logins.count == 1)
      #expect(await rig.callBack(login).kind == .completed)
    } else {
      let callback = Task { await rig.callBack(login).kind }
      #expect(await eventually { rig.transport.held(.token) == 2 })
      rig.transport.releaseOne(.token, last: moment == .after)
      #expect(await eventually { await rig.broker.logins.table.exchangesInFlight == 1 })
      rig.transport.release(.token)
      #expect(await callback.value == .completed)
    }
    #expect(await eventually { await rig.broker.logins.table.exchangesInFlight == 0 })
    #expect(try await rig.waitFor(login).state == .completed)
    #expect(try await rig.token("work").access_token == "work-a1")
    await rig.broker.trail.flush()
    let told: Set<String> = [EventType.loginCompleted.rawValue, EventType.loginFailed.rawValue]
    let ends = rig.audit.records.map(\.entry).filter { told.contains($0.method) }
    #expect(ends.map(\.result) == [AuditEntry.ok])
    rig.clock.advance(.seconds(600))
    await settle()
    #expect(rig.transport.requests(.token).count { $0.form["device_code"] != nil } == 1)
  }

  @Test("waits for the browser until its own end, over a restart too, and asks for the device no more")
  func waitsForBrowser() async throws {
    let (first, login) = try await Self.beginBoth()
    await expectPoll(first, after: 5, answered: Self.oauth("expired_token"))
    #expect(await eventually { first.store.logins.first?.device == nil })
    let second = try await Rig(store: first.store, configuration: Self.configuration())
    second.clock.advance(.seconds(1700))
    await settle()
    #expect(second.transport.count(.token) == 0)
    _ = await second.broker.tick()
    #expect(try await second.waitFor(login).state == .pending)
    second.clock.advance(.seconds(101))
    _ = await second.broker.tick()
    #expect(await eventually { await second.reason { try await second.waitFor(login) } == .loginExpired })
  }

  @Test("is revoked if the login was cancelled in the interim")
  func cancelledMeanwhile() async throws {
    let (rig, login) = try await Self.begin()
    rig.transport.hold(.token)
    #expect(await eventually { rig.clock.sleepers == 1 })
    rig.clock.advance(.seconds(5))
    #expect(await eventually { rig.transport.held(.token) == 1 })
    _ = try await rig.call(LoginCancel.self, .init(login_id: login.login_id))
    rig.transport.release(.token)
    #expect(await eventually { rig.store.revocations.contains { $0.hint == "refresh_token" } })
  }
}
