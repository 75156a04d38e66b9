type Kind = "flag" | "unsigned" | "signed";

/** A syntax element: its name, binarisation, largest magnitude and number of contexts. */
export interface Element {
  readonly name: string;
  readonly kind: Kind;
  readonly maximum: number;
  readonly contexts: number;
}

function element(name: string, kind: Kind, maximum = 1, contexts = 1): Element {
  return { name, kind, maximum, contexts };
}

/** The elements of the scaffold (section 5) that drawing needs. */
export const E = {
  crf: element("picture.crf", "unsigned", 70),
  eighths: element("picture.eighths", "unsigned", 64),
  alone: element("packet.alone", "flag"),
  same: element("interval.same", "flag"),
  length: element("interval.length", "unsigned", 2047),
  held: element("interval.held", "flag"),
  after: element("interval.after", "flag"),
  irregular: element("timing.irregular", "flag"),
  deviation: element("timing.deviation", "signed", 2 ** 30),
  sequence: element("unit.sequence", "unsigned", 255),
  unusual: element("unit.unusual", "flag"),
  repeats: element("unit.repeats", "flag", 1, 2),
  slot: element("unit.slot", "unsigned", 7),
  hidden: element("unit.hidden", "unsigned", 8, 2),
  size: element("frame.size", "unsigned", 2 ** 24, 6),
  head: element("frame.head", "flag", 1, 896),
  dissolves: element("interval.dissolves", "flag"),
  moreSamples: element("sample.more", "flag"),
  gap: element("sample.gap", "unsigned", 2048),
  labelsSame: element("labels.same", "flag"),
  left: element("labels.left", "flag", 1, 32),
  above: element("labels.above", "flag", 1, 4),
  before: element("labels.before", "flag"),
  label: element("labels.value", "unsigned", 7),
  moves: element("layers.moves", "flag", 1, 2),
  layerVector: element("layers.vector", "signed", 1023, 2),
  stays: element("pose.stays", "flag"),
  morePeople: element("pose.more", "flag"),
  identity: element("pose.identity", "unsigned", 15),
  movesPicture: element("pose.moves_picture", "flag"),
  shift: element("pose.shift", "signed", 16384, 2),
  visible: element("pose.visible", "flag", 1, 3),
  origin: element("pose.origin", "signed", 8192, 2),
  point: element("pose.point", "signed", 32768, 2),
  flowPresent: element("flow.present", "flag"),
  flowBlock: element("flow.block", "unsigned", 3),
  coded: element("flow.coded", "flag", 1, 6),
  oneSided: element("flow.one_sided", "flag", 1, 3),
  right: element("flow.right", "flag", 1, 3),
  flowVector: element("flow.vector", "signed", 2046, 2),
  texturePresent: element("texture.present", "flag"),
  textureBlock: element("texture.block", "unsigned", 3),
  gain: element("texture.gain", "unsigned", 7, 6),
  mixture: element("guide.mixture", "unsigned", 11, 12),
  cameraPresent: element("camera.present", "flag", 1, 2),
  cameraStep: element("camera.step", "unsigned", 4),
  corner: element("camera.corner", "signed", 65536, 4),
  facesPresent: element("faces.present", "flag", 1, 2),
  facesGoOn: element("faces.goes_on", "flag"),
  facesState: element("faces.state", "signed", 131072, 3),
  facesChange: element("faces.change", "signed", 131072, 3),
  facesStep: element("faces.step", "unsigned", 4),
  facesStay: element("faces.stays", "flag", 1, 2),
  facesBend: element("faces.bend", "signed", 131072, 10),
  brightnessPresent: element("brightness.present", "flag"),
  brightnessChange: element("brightness.change", "signed", 128, 2),
} as const;

/** A field of `width` bits, each coded under those before it. */
function tree(name: string, width: number, contexts: number): Element {
  return element(`head.${name}`, "flag", 1, contexts << width);
}

/** The elements of heads of AV1 frames (section 6, head). */
export const HEAD = {
  flag: tree("flag", 0, 441),
  plain: tree("plain", 0, 1),
  primary: tree("primary_ref_frame", 3, 27),
  refresh: tree("refresh_slot", 3, 45),
  reference: tree("reference", 3, 315),
  quantizer: element("head.base_q_idx", "signed", 255, 30),
  filter: element("head.loop_filter_level", "signed", 63, 30),
  damping: tree("cdef_damping", 2, 15),
  cdefBits: tree("cdef_bits", 2, 15),
  yPrimary: tree("cdef_y_pri", 4, 15),
  ySecondary: tree("cdef_y_sec", 2, 15),
  uvPrimary: tree("cdef_uv_pri", 4, 15),
  uvSecondary: tree("cdef_uv_sec", 2, 15),
} as const;

/** Those of layout and units, whose models begin anew in each packet that is read alone. */
export const FIRST_ELEMENTS: readonly Element[] = [
  E.same,
  E.length,
  E.held,
  E.after,
  E.irregular,
  E.deviation,
  E.sequence,
  E.unusual,
  E.repeats,
  E.slot,
  E.hidden,
  E.size,
  E.head,
  ...Object.values(HEAD),
];
