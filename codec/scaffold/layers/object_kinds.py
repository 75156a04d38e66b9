"""The classes of objects that streams number: what moves, and the 80 classes of COCO."""

MOVING, PERSON = "moving", "person"
_THINGS = """bicycle,car,motorcycle,airplane,bus,train,truck,boat,traffic light,fire hydrant,
stop sign,parking meter,bench,bird,cat,dog,horse,sheep,cow,elephant,bear,zebra,giraffe,backpack,
umbrella,handbag,tie,suitcase,frisbee,skis,snowboard,sports ball,kite,baseball bat,baseball glove,
skateboard,surfboard,tennis racket,bottle,wine glass,cup,fork,knife,spoon,bowl,banana,apple,
sandwich,orange,broccoli,carrot,hot dog,pizza,donut,cake,chair,couch,potted plant,bed,dining table,
toilet,tv,laptop,mouse,remote,keyboard,cell phone,microwave,oven,toaster,sink,refrigerator,book,
clock,vase,scissors,teddy bear,hair drier,toothbrush"""

COCO = (PERSON, *_THINGS.replace("\n", "").split(","))
"""The 80 classes of COCO, in its order."""
KINDS = (MOVING, *COCO)
"""Names of classes by number; a stream spells others, which get the next numbers."""
MAX_KIND = 255
