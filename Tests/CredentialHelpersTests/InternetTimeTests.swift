import Testing

@testable import CredentialHelpers

@Suite struct InternetTimeTests {
  @Test(
    "A time is read as it is written",
    arguments: [
      ("1970-01-01T00:00:00Z", 0), ("2026-11-26T11:30:00Z", 1_795_692_600), ("2024-02-29T23:59:59.123Z", 1_709_251_199),
      ("2000-03-01T00:00:00Z", 951_868_800), ("2026-01-01T00:00:00Z", 1_767_225_600),
      ("2026-01-01T00:00:00.123456Z", 1_767_225_600), ("2026-01-01T00:00:00.9999999999999999999Z", 1_767_225_600),
    ])
  func seconds(_ text: String, _ expected: Int64) {
    #expect(InternetTime.seconds(text) == expected)
    if !text.contains(".") { #expect(InternetTime.text(expected) == text) }
  }

  @Test(
    "an offset is taken into account",
    arguments: [
      ("2026-11-26T13:30:00+02:00", 1_795_692_600), ("2026-11-26T06:00:00.5-05:30", 1_795_692_600),
      ("1970-01-01T00:00:00+00:00", 0), ("2026-01-01T02:00:00+02:00", 1_767_225_600),
      ("2025-12-31T18:30:00-05:30", 1_767_225_600), ("1969-12-31T23:59:59Z", -1),
    ])
  func offset(_ text: String, _ expected: Int64) { #expect(InternetTime.seconds(text) == expected) }

  @Test(
    "Other forms are none",
    arguments: [
      "", "2026-11-26", "2026-11-26T11:30:00", "2026-13-26T11:30:00Z", "2026-11-26 11:30:00Z", "x026-11-26T11:30:00Z",
      "2026-11-26T11:30:00+2:00", "2026-11-26T11:30:00+24:00", "2026-11-26T11:30:00 +02:00", "+02:00",
      "2026-02-29T00:00:00Z", "2026-04-31T00:00:00Z", "2026-01-01 00:00:00Z", "2026-01-01T00:00:00",
      "2026-01-01T00:00Z",
      "2026-01-01T24:00:00Z", "2026-01-01T00:00:00.Z", "2026-01-01T00:00:00.+02:00", "2026-01-01T00:00:00+2",
      "2026-01-01T00:00:00Zx", "T",
    ])
  func none(_ text: String) { #expect(InternetTime.seconds(text) == nil) }
}
